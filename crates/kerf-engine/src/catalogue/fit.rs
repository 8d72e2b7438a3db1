//! An index of the rows that have enough free resources. For each resource the rows are ranked by
//! the amount they have for pods, with one bit set per rank. So a query is a binary search and an
//! AND per requested resource.

use crate::bits::Bits;
use crate::resources::{Amounts, ResourceIx};

/// Rows ranked by the resources that remain for pods after daemons.
#[derive(Debug, Clone)]
pub(crate) struct FitIndex {
    viable: Bits,
    by_resource: Vec<Ranked>,
}

#[derive(Debug, Clone, Default)]
struct Ranked {
    /// Distinct amounts in ascending order.
    amounts: Vec<i128>,
    /// For each amount, the rows that have at least that much.
    rows: Vec<Bits>,
}

impl FitIndex {
    /// Builds the index. `net[row]` is what the row has for pods. A row with a negative amount
    /// never fits.
    pub(crate) fn new(net: &[Amounts]) -> Self {
        let viable: Bits = (0..net.len()).filter(|i| !net[*i].any_negative()).collect();
        let width = net.iter().map(|a| a.as_slice().len()).max().unwrap_or(0);
        let by_resource = (0..width).map(|r| Ranked::new(net, ResourceIx(r))).collect();
        Self { viable, by_resource }
    }

    /// Keeps the rows that have enough of every requested resource.
    pub(crate) fn keep_fitting(&self, rows: &mut Bits, requests: &Amounts) {
        rows.and_with(&self.viable);
        for (resource, need) in requests.iter() {
            if need <= 0 {
                continue;
            }
            let ranked = self.by_resource.get(resource.0);
            let mask = ranked.and_then(|r| r.rows.get(r.amounts.partition_point(|have| *have < need)));
            match mask {
                Some(mask) => rows.and_with(mask),
                None => {
                    *rows = Bits::new();
                    return;
                }
            }
        }
    }
}

impl Ranked {
    fn new(net: &[Amounts], resource: ResourceIx) -> Self {
        let mut amounts: Vec<i128> = net.iter().map(|a| a.get(resource)).filter(|n| *n > 0).collect();
        amounts.sort_unstable();
        amounts.dedup();
        let mut order: Vec<usize> = (0..net.len()).collect();
        order.sort_unstable_by_key(|i| net[*i].get(resource));
        let mut rows = vec![Bits::new(); amounts.len()];
        let mut have = Bits::new();
        let mut next = order.into_iter().rev().peekable();
        for (rank, amount) in amounts.iter().enumerate().rev() {
            while let Some(row) = next.next_if(|row| net[*row].get(resource) >= *amount) {
                have.insert(row);
            }
            rows[rank] = have.clone();
        }
        Self { amounts, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_scan() {
        let amounts = |cpu: i128, memory: i128| {
            let mut a = Amounts::default();
            a.set(ResourceIx::CPU, cpu);
            a.set(ResourceIx::MEMORY, memory);
            a
        };
        let net = [amounts(1, 8), amounts(2, 4), amounts(2, 8), amounts(4, -1), amounts(0, 0), amounts(9, 9)];
        let index = FitIndex::new(&net);
        for cpu in 0..10 {
            for memory in 0..10 {
                let need = amounts(cpu, memory);
                let mut rows = Bits::full(net.len());
                index.keep_fitting(&mut rows, &need);
                let scan: Bits = (0..net.len()).filter(|i| need.fits_in(&net[*i])).collect();
                assert_eq!(rows, scan, "need {cpu} cpu, {memory} memory");
            }
        }
    }

    #[test]
    fn a_resource_that_no_row_has_fits_only_a_request_of_zero() {
        let index = FitIndex::new(&[Amounts::default()]);
        let mut need = Amounts::default();
        need.set(ResourceIx(7), 1);
        let mut rows = Bits::full(1);
        index.keep_fitting(&mut rows, &need);
        assert!(rows.is_empty());
        let mut rows = Bits::full(1);
        index.keep_fitting(&mut rows, &Amounts::default());
        assert_eq!(rows.iter().count(), 1);
    }
}
