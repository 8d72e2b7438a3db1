//! Finds the edge cases that a test names: in prose, `spec NN #41`, `#19-#21`, `#19, #20 and #22`;
//! or in its name, `spec_NN_41_…`, `spec_NN_19_to_21_…`, `spec_NN_19_and_20_…`.

/// Returns every edge case that a text names, as specification and number.
pub(super) fn find(text: &str) -> Vec<(String, u32)> {
    let mut cases = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("pec") {
        let starts_word = !rest[..at].trim_end_matches(['s', 'S']).ends_with(|c: char| c.is_alphanumeric());
        let is_spec = rest[..at].ends_with(['s', 'S']) && starts_word;
        rest = &rest[at + 3..];
        if is_spec {
            let mut cursor = Cursor { rest };
            cases.extend(cursor.parse_test_name().or_else(|| Cursor { rest }.parse_prose()).unwrap_or_default());
        }
    }
    cases
}

/// Parser of the text after the word `spec`.
struct Cursor<'t> {
    rest: &'t str,
}

impl Cursor<'_> {
    /// Parses `_02_41_…`.
    fn parse_test_name(&mut self) -> Option<Vec<(String, u32)>> {
        self.consume("_")?;
        let spec = self.two_digits()?;
        self.consume("_")?;
        let mut cases = vec![self.number()?];
        loop {
            let mut ahead = Cursor { rest: self.rest };
            let (is_range, next) = if ahead.consume("_to_").is_some() {
                (true, ahead.number())
            } else if ahead.consume("_and_").is_some() {
                (false, ahead.number())
            } else {
                break;
            };
            let Some(next) = next else { break };
            if is_range {
                extend_to(&mut cases, next);
            } else {
                cases.push(next);
            }
            self.rest = ahead.rest;
        }
        Some(cases.into_iter().map(|case| (spec.clone(), case)).collect())
    }

    /// Parses ` 02 #41, #43-#45 and #50`.
    fn parse_prose(&mut self) -> Option<Vec<(String, u32)>> {
        self.consume(" ")?;
        let spec = self.two_digits()?;
        self.consume(" ")?;
        self.consume("#")?;
        let mut cases = vec![self.number()?];
        loop {
            if ["-", "–", ".."].iter().any(|dash| self.consume(dash).is_some()) {
                let _ = self.consume("#");
                match self.number() {
                    Some(last) => extend_to(&mut cases, last),
                    None => break,
                }
                continue;
            }
            let separated =
                [", and ", ", ", " and ", "/", " "].iter().any(|separator| self.consume(separator).is_some());
            if !(separated && self.consume("#").is_some()) {
                break;
            }
            match self.number() {
                Some(next) => cases.push(next),
                None => break,
            }
        }
        Some(cases.into_iter().map(|case| (spec.clone(), case)).collect())
    }

    fn consume(&mut self, prefix: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(prefix)?;
        Some(())
    }

    fn two_digits(&mut self) -> Option<String> {
        let digits = self.rest.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.to_owned();
        self.rest = &self.rest[2..];
        Some(digits)
    }

    fn number(&mut self) -> Option<u32> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest[..length].parse().ok()?;
        self.rest = &self.rest[length..];
        Some(number)
    }
}

/// Extends a range to `last`. A range that runs backwards counts as its two ends.
fn extend_to(cases: &mut Vec<u32>, last: u32) {
    let first = cases.last().map_or(last, |first| first + 1);
    if first <= last { cases.extend(first..=last) } else { cases.push(last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces `S` by the word, so that these lines are not mentions themselves.
    fn cases(text: &str) -> Vec<(String, u32)> {
        find(&text.replace('S', concat!("sp", "ec")))
    }

    fn of(spec: &str, numbers: &[u32]) -> Vec<(String, u32)> {
        numbers.iter().map(|&number| (spec.to_owned(), number)).collect()
    }

    #[test]
    fn mentions_in_prose() {
        assert_eq!(cases("// S 02 #41: a pod"), of("02", &[41]));
        assert_eq!(cases("S 02 #19-#21"), of("02", &[19, 20, 21]));
        assert_eq!(cases("S 02 #19–21."), of("02", &[19, 20, 21]));
        assert_eq!(cases("(S 01 #19, #20 and #25-#26)"), of("01", &[19, 20, 25, 26]));
        assert_eq!(cases("S 01 #3, 4 times"), of("01", &[3]));
        assert_eq!(cases("S 01 #3 S 02 #4"), [of("01", &[3]), of("02", &[4])].concat());
    }

    #[test]
    fn mentions_in_test_names() {
        assert_eq!(cases("fn S_01_17_holds()"), of("01", &[17]));
        assert_eq!(cases("fn S_01_17_to_19_hold()"), of("01", &[17, 18, 19]));
        assert_eq!(cases("fn S_01_17_and_20()"), of("01", &[17, 20]));
        assert_eq!(cases("fn S_01_17_to_the_end()"), of("01", &[17]));
        assert_eq!(cases("fn S_01_17_30s_is_admitted()"), of("01", &[17]));
    }

    #[test]
    fn other_words_are_not_mentions() {
        for text in ["S 2 #41", "S 02 section 4", "pod.S 02", "S_02", "inS 02 #1", "S 02 #", "S"] {
            assert_eq!(cases(text), [], "{text}");
        }
    }
}
