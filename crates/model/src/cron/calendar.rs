//! The search for the next hit. Every field is a set of bits, so a step is a jump to the next set bit: at most one look
//! at each month of six years, and none at the days, hours and minutes in between.

use std::time::Duration;

use crate::time::{Civil, Date, Instant, days_in_month};

/// Bit `n` of each set stands for the value `n` as written in the schedule: days and months from 1, Sunday as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: u64,
    pub(super) months: u64,
    pub(super) weekdays: u64,
    pub(super) day_rule: DayRule,
}

/// How day-of-month and day-of-week combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// One of them is a star, so the other one decides.
    Both,
    /// Both were restricted: the oldest surprise of cron is that `0 0 13 * FRI` then means "the 13th, and Fridays".
    Either,
}

/// The years searched after the one in which the search begins.
const YEARS_SEARCHED: i32 = 5;

impl Calendar {
    pub(super) fn next_after(&self, after: Instant) -> Option<Instant> {
        let earliest = after.floor_to_second().checked_plus(Duration::from_secs(1))?;
        let last_year = earliest.civil().date.year + YEARS_SEARCHED;
        // Hits are on whole minutes.
        let to_minute = (60 - earliest.civil().second) % 60;
        let Civil { date, hour, minute, .. } =
            earliest.checked_plus(Duration::from_secs(u64::from(to_minute)))?.civil();

        let today = has(self.days_of(date.year, date.month), date.day);
        let (date, (hour, minute)) =
            match self.time_from(hour, minute).filter(|_| today && has(self.months, date.month)) {
                Some(time) => (date, time),
                None => (self.day_after(date, last_year)?, self.time_from(0, 0)?),
            };
        Instant::from_civil(Civil { date, hour, minute, second: 0 })
    }

    /// The first allowed day after `date` that is not in a year after `last_year`.
    fn day_after(&self, date: Date, last_year: i32) -> Option<Date> {
        let Date { mut year, mut month, mut day } = date;
        while year <= last_year {
            if has(self.months, month)
                && let Some(day) = first_from(self.days_of(year, month), day + 1)
            {
                return Some(Date { year, month, day });
            }
            day = 0;
            (year, month) = match first_from(self.months, month + 1) {
                Some(month) => (year, month),
                None => (year + 1, first_from(self.months, 1)?),
            };
        }
        None
    }

    /// The first allowed hour and minute of a day, not before the given ones.
    fn time_from(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        if has(self.hours, hour)
            && let Some(minute) = first_from(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        Some((first_from(self.hours, hour + 1)?, first_from(self.minutes, 0)?))
    }

    /// The allowed days of one month, whether or not the month itself is allowed.
    fn days_of(&self, year: i32, month: u32) -> u64 {
        // One bit in seven, five times: multiplying by it repeats a week over a month.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let first = Date { year, month, day: 1 }.weekday();
        let week_from_first = (self.weekdays >> first | self.weekdays << (7 - first)) & 0x7f;
        let by_weekday = (week_from_first * WEEKS) << 1;
        let days = match self.day_rule {
            DayRule::Both => self.days & by_weekday,
            DayRule::Either => self.days | by_weekday,
        };
        days & ((2 << days_in_month(year, month)) - 1)
    }
}

fn has(values: u64, value: u32) -> bool {
    values >> value & 1 == 1
}

fn first_from(values: u64, least: u32) -> Option<u32> {
    let left = values >> least << least;
    (left != 0).then(|| left.trailing_zeros())
}
