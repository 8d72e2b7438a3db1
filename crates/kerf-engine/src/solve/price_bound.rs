//! The least that any answer can cost: what no order of pods and no mix of machines can get below.

use super::pass::PlacementPass;
use crate::price::Price;
use crate::resources::ResourceIx;

/// A price below which the pods that have a place cannot be had, whatever the machines: of each resource the cheapest per unit,
/// for all that the nodes which exist cannot give. Daemons come on top and are not counted.
pub(crate) fn lower_bound_price(pass: &mut PlacementPass<'_>) -> Price {
    [ResourceIx::CPU, ResourceIx::MEMORY, ResourceIx::PODS]
        .into_iter()
        .map(|resource| lower_bound_for_resource(pass, resource))
        .max()
        .unwrap_or(Price::ZERO)
}

fn lower_bound_for_resource(pass: &mut PlacementPass<'_>, resource: ResourceIx) -> Price {
    let problem = pass.problem;
    // What is on claims now, and what is still free on nodes: another order might use it.
    let claimed: i128 = pass.state.claims.iter().map(|c| c.requests.get(resource)).fold(0, i128::saturating_add);
    let free: i128 = (pass.state.remaining.iter().enumerate())
        .filter(|(node, _)| {
            !problem.cluster.nodes[*node].is_marked_for_deletion && !pass.state.removed_nodes.contains(*node)
        })
        .map(|(_, left)| left.get(resource).max(0))
        .fold(0, i128::saturating_add);
    let need = (claimed - free).max(0);
    let mut least: Option<i128> = None;
    for template in &problem.templates {
        let rows = &problem.cluster.catalogues[template.catalogue].rows;
        let view = pass.view(template.catalogue, template.requirements);
        for (price, row) in view.by_price.iter().filter(|(_, row)| template.rows.contains(*row)) {
            let has = rows[*row].allocatable.get(resource);
            if has > 0 {
                // A product that does not fit is no bound at all.
                let share = i128::from(price.nanos()).checked_mul(need).map_or(0, |product| product / has);
                least = Some(least.map_or(share, |l| l.min(share)));
            }
        }
    }
    least.and_then(|nanos| i64::try_from(nanos).ok()).map_or(Price::ZERO, Price::from_nanos)
}
