//! Prices as whole numbers. Decision 0004.

use std::fmt;

const PICO_PER_DOLLAR: i64 = 1_000_000_000_000;

/// Pico-dollars per hour, never negative: exact, ordered, and wide enough for nine million dollars an hour per machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

/// Why a text or number is no price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceError {
    NotANumber(String),
    Negative(String),
    TooLarge(String),
}

impl Price {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    /// Rounds to the nearest pico-dollar. Refuses what is negative, infinite or no number.
    pub fn from_dollars(dollars: f64) -> Result<Self, PriceError> {
        if dollars.is_nan() {
            return Err(PriceError::NotANumber(dollars.to_string()));
        }
        if dollars < 0.0 {
            return Err(PriceError::Negative(dollars.to_string()));
        }
        let pico = (dollars * PICO_PER_DOLLAR as f64).round();
        // The conversion below saturates, so the bound itself must be refused.
        if pico >= i64::MAX as f64 {
            return Err(PriceError::TooLarge(dollars.to_string()));
        }
        Ok(Self(pico as i64))
    }

    pub const fn from_pico(pico: i64) -> Self {
        Self(if pico < 0 { 0 } else { pico })
    }

    pub const fn pico(self) -> i64 {
        self.0
    }

    /// For people, metrics and rules of thumb such as a claim's goal; which of two prices is less is never asked of this.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / PICO_PER_DOLLAR as f64
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The price with so many pico-dollars added, or taken away down to zero.
    #[must_use]
    pub const fn shifted(self, pico: i64) -> Self {
        Self::from_pico(self.0.saturating_add(pico))
    }

    /// The price times `parts` per million, rounded half up, down to zero for negative factors.
    #[must_use]
    pub fn scaled(self, parts_per_million: i64) -> Self {
        let product = i128::from(self.0) * i128::from(parts_per_million.max(0)) + 500_000;
        Self(i64::try_from(product / 1_000_000).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}/h", self.dollars())
    }
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(text) => write!(f, "price {text:?} is not a number; write dollars per hour, such as 0.05"),
            Self::Negative(text) => write!(f, "price {text} is negative; a machine costs nothing or more"),
            Self::TooLarge(text) => {
                write!(f, "price {text} is more than a price can be, about nine million dollars an hour")
            }
        }
    }
}

impl std::error::Error for PriceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_to_the_pico_dollar() {
        let spot = Price::from_dollars(0.027_147_483_648).unwrap();
        assert_eq!(spot.pico(), 27_147_483_648);
        assert_eq!(spot.plus(spot).pico(), 54_294_967_296);
        assert_eq!(
            Price::from_dollars(0.1).unwrap().plus(Price::from_dollars(0.2).unwrap()),
            Price::from_dollars(0.3).unwrap()
        );
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for bad in [f64::NAN, f64::INFINITY, -0.01, 1e300] {
            assert!(Price::from_dollars(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let text = |dollars: f64| Price::from_dollars(dollars).unwrap_err().to_string();
        assert!(
            text(f64::NAN).contains("not a number")
                && text(-1.0).contains("negative")
                && text(1e9).contains("more than")
        );
        let nearly_most = i64::MAX as f64 / 1e12;
        assert!(Price::from_dollars(nearly_most).is_err() && Price::from_dollars(nearly_most * 0.999).is_ok());
        assert_eq!(Price::from_dollars(0.0), Ok(Price::ZERO));
        assert_eq!(Price::from_dollars(-0.0), Ok(Price::ZERO));
    }

    #[test]
    fn prices_are_shown_in_dollars_and_never_below_zero() {
        assert_eq!(Price::from_pico(1_234_560_000_000).to_string(), "$1.2346/h");
        assert_eq!(Price::from_pico(2_500_000_000_000).dollars(), 2.5);
        assert_eq!([-5, 0, 5].map(|pico| Price::from_pico(pico).pico()), [0, 0, 5]);
    }

    #[test]
    fn scaling_rounds_half_up() {
        let scaled = |pico: i64, parts: i64| Price::from_pico(pico).scaled(parts).pico();
        assert_eq!([scaled(1, 499_999), scaled(1, 500_000), scaled(3, 500_000), scaled(7, 1_000_000)], [0, 1, 2, 7]);
        assert_eq!(scaled(10, 2_500_000), 25);
    }

    #[test]
    fn adjustments_stop_at_zero() {
        let price = Price::from_dollars(1.0).unwrap();
        assert_eq!(price.shifted(-2_000_000_000_000), Price::ZERO);
        assert_eq!(price.scaled(900_000), Price::from_dollars(0.9).unwrap());
        assert_eq!(price.scaled(-1_000_000), Price::ZERO);
        assert_eq!(Price::MAX.scaled(2_000_000), Price::MAX);
    }
}
