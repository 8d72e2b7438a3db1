//! A lower bound on the price of any solution. The search is skipped if first fit is at most 1%
//! above it.

use super::pass::PlacementPass;
use crate::price::Price;
use crate::resources::ResourceIx;

/// Returns a price that no solution for the placed pods can be below. For CPU, memory and pods,
/// takes the requests that the existing nodes cannot serve at the cheapest price per unit, and
/// returns the highest of the three. Daemon overhead is not included.
pub(crate) fn lower_bound_price(pass: &mut PlacementPass<'_>) -> Price {
    [ResourceIx::CPU, ResourceIx::MEMORY, ResourceIx::PODS]
        .into_iter()
        .map(|resource| lower_bound_for_resource(pass, resource))
        .max()
        .unwrap_or(Price::ZERO)
}

fn lower_bound_for_resource(pass: &mut PlacementPass<'_>, resource: ResourceIx) -> Price {
    let problem = pass.problem;
    // Free capacity of nodes is subtracted, because another order of pods might use it.
    let claimed: i128 = pass.state.claims.iter().map(|c| c.requests.get(resource)).fold(0, i128::saturating_add);
    let free: i128 = (pass.state.remaining.iter().enumerate())
        .filter(|(node, _)| {
            !problem.cluster.nodes[*node].is_marked_for_deletion && !pass.state.removed_nodes.contains(*node)
        })
        .map(|(_, remaining)| remaining.get(resource).max(0))
        .fold(0, i128::saturating_add);
    let missing = (claimed - free).max(0);
    let mut lowest: Option<Price> = None;
    for template in &problem.templates {
        let rows = &problem.cluster.catalogues[template.catalogue].rows;
        let view = pass.view(template.catalogue, template.requirements);
        for priced in view.by_price.iter().filter(|priced| template.rows.contains(priced.row)) {
            if let Some(share) = priced.price.share(missing, rows[priced.row].allocatable.get(resource)) {
                lowest = Some(lowest.map_or(share, |l| l.min(share)));
            }
        }
    }
    lowest.unwrap_or(Price::ZERO)
}
