//! Parses the numbered edge cases at the end of a specification.

/// One numbered edge case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EdgeCase {
    pub(super) number: u32,
    /// Text joined to one line.
    pub(super) text: String,
}

const HEADING: &str = "Edge cases that must hold";

/// Returns the cases under the last heading "Edge cases that must hold", up to the next heading of
/// the same level.
pub(super) fn parse(spec: &str) -> Vec<EdgeCase> {
    let lines: Vec<&str> = spec.lines().collect();
    let is_heading = |line: &str| line.starts_with("## ");
    let Some(start) = lines.iter().rposition(|line| is_heading(line) && line.contains(HEADING)) else {
        return Vec::new();
    };
    let mut cases: Vec<EdgeCase> = Vec::new();
    // True while the next lines belong to a case; a blank line or a sub-heading ends it.
    let mut is_open = false;
    for line in lines[start + 1..].iter().take_while(|line| !is_heading(line)) {
        if let Some((number, text)) = parse_numbered_line(line) {
            cases.push(EdgeCase { number, text: text.to_owned() });
            is_open = true;
        } else if is_open
            && line.starts_with("  ")
            && let Some(case) = cases.last_mut()
        {
            case.text.push(' ');
            case.text.push_str(line.trim());
        } else {
            is_open = false;
        }
    }
    cases
}

/// Returns the first error in the numbers: they must run from 1 without a gap.
pub(super) fn numbering_problems(cases: &[EdgeCase]) -> Vec<String> {
    if cases.is_empty() {
        return vec![format!("no numbered case under \"{HEADING}\"")];
    }
    let expected = 1..;
    let wrong = cases.iter().zip(expected).find(|(case, expected)| case.number != *expected);
    wrong.map(|(case, expected)| format!("expected edge case {expected}, found {}", case.number)).into_iter().collect()
}

fn parse_numbered_line(line: &str) -> Option<(u32, &str)> {
    let (number, text) = line.split_once(". ")?;
    Some((number.parse().ok()?, text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_with_their_continuation_lines() {
        let spec = "## 3. Edge cases that must hold\n\nGroup\n\n1. One\n   more.\n2. Two.\n\n   stray\n**Group**\n3. Three.\n## 4. Rest\n9. no\n";
        let cases = parse(spec);
        let texts: Vec<_> = cases.iter().map(|case| (case.number, case.text.as_str())).collect();
        assert_eq!(texts, [(1, "One more."), (2, "Two."), (3, "Three.")]);
        assert_eq!(numbering_problems(&cases), [""; 0]);
    }

    #[test]
    fn gaps_and_missing_cases_are_reported() {
        assert_eq!(numbering_problems(&parse("no such heading")).len(), 1);
        assert_eq!(
            numbering_problems(&parse("## 1. Edge cases that must hold\n1. One\n3. Three\n")),
            ["expected edge case 2, found 3"]
        );
    }
}
