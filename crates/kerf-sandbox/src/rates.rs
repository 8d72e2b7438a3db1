//! Rates in scenario files: numbers between 0 and 1, or per cent.

/// Parses a rate: a number between 0 and 1, or per cent. Returns parts per million.
pub(crate) fn parse_rate(text: &str) -> Result<u32, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1e6), |digits| (digits, 1e4));
    let parts = digits.trim().parse::<f64>().map(|number| (number * unit).round());
    match parts {
        Ok(parts) if (0.0..=1e6).contains(&parts) => Ok(parts as u32),
        Ok(_) | Err(_) => Err(format!("rate: \"{text}\" is not between 0 and 1; write for example 0.05 or 5%")),
    }
}
