//! Prices as the sources spell them.

/// Dollars per hour in decimals, without needless zeros; never zero. Kept as text, so that nothing is rounded on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dollars(String);

/// As many decimals as a pico-dollar has.
const DECIMALS_MAX: usize = 12;

impl Dollars {
    /// Sources write zero where they know no price, so zero is no price.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let decimals = decimals.trim_end_matches('0');
        match decimals.len() {
            0 if whole == "0" => None,
            0 => Some(Self(whole.to_owned())),
            1..=DECIMALS_MAX => Some(Self(format!("{whole}.{decimals}"))),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}
