//! Finds the name that a user probably meant.

/// Greatest edit distance between a name and the one that is suggested for it.
const DISTANCE_MAX: usize = 2;

/// Returns the known name that is most similar to an unknown one: equal except for its case, or with
/// at most two typing errors and no more than a third of its letters wrong.
pub(super) fn most_similar<'n>(unknown: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distance_max = DISTANCE_MAX.min(unknown.chars().count() / 3);
    let distances = known.into_iter().map(|name| {
        let distance = if name.eq_ignore_ascii_case(unknown) { 0 } else { edit_distance(unknown, name) };
        (distance, name)
    });
    distances.filter(|(distance, _)| *distance <= distance_max).min().map(|(_, name)| name)
}

/// Returns the number of inserted, removed, replaced and swapped letters between two names.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // More letters than this are never one or two typing errors apart.
    if a.len().abs_diff(b.len()) > DISTANCE_MAX {
        return usize::MAX;
    }
    let mut before_previous: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut current = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let replaced = previous[j] + usize::from(letter != other);
            let mut distance = replaced.min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                distance = distance.min(before_previous[j - 1] + 1);
            }
            current.push(distance);
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_has_at_most_two_typing_errors() {
        let known = ["weight", "limits", "template", "disruption"];
        let suggestions = ["wieght", "weigth", "Weight", "limit", "tmplate", "weightings", "xy", "li"]
            .map(|name| most_similar(name, known));
        assert_eq!(
            suggestions,
            [Some("weight"), Some("weight"), Some("weight"), Some("limits"), Some("template"), None, None, None]
        );
        assert_eq!(most_similar("app", ["apps", "batch"]), Some("apps"));
    }
}
