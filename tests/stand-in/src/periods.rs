//! Segments whose numbers begin with the date of a period. Days begin at midnight UTC.

/// How the numbers of a segment begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub unit: Unit,
    /// The number of digits after the prefix.
    pub digits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Day,
    Month,
    Year,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Day => "day",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }
}

pub(crate) fn at_or_above(start: i128, increment: i64, value: i128) -> i128 {
    let increment = i128::from(increment);
    if value <= start { start } else { value + (increment - (value - start) % increment) % increment }
}

/// The prefix followed by serial number 0.
pub(crate) fn period_base(key: i64, digits: u32) -> i128 {
    i128::from(key) * 10_i128.pow(digits)
}

/// The lowest number of a period that is not below a value, or serial number 0 of the next prefix.
pub(crate) fn in_period(key: i64, digits: u32, start: i64, increment: i64, value: i128) -> i128 {
    let base = period_base(key, digits);
    at_or_above(base + i128::from(start), increment, value).min(base + period_base(1, digits))
}

pub(crate) fn key_of_number(digits: u32, value: i128) -> i64 {
    (value / period_base(1, digits)) as i64
}

/// Year, month and day of a day of Unix time, by the algorithm of Howard Hinnant
/// (<https://howardhinnant.github.io/date_algorithms.html#civil_from_days>).
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted_month + 2) / 5 + 1)
}

fn day_of((year, month, day): (i64, i64, i64)) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

fn key_of_date(unit: Unit, (year, month, day): (i64, i64, i64)) -> i64 {
    match unit {
        Unit::Year => year,
        Unit::Month => year * 100 + month,
        Unit::Day => year * 10_000 + month * 100 + day,
    }
}

pub(crate) fn key_of_clock(unit: Unit, instant_us: i64) -> i64 {
    key_of_date(unit, date_of(instant_us.div_euclid(86_400_000_000)))
}

/// The first day of a period, unless there is no such period.
fn first_day(unit: Unit, key: i64) -> Option<(i64, i64, i64)> {
    let date = match unit {
        Unit::Year => (key, 1, 1),
        Unit::Month => (key / 100, key % 100, 1),
        Unit::Day => (key / 10_000, key / 100 % 100, key % 100),
    };
    // PostgreSQL has no year 0.
    let is_possible = date.0 > 0 && (1..=12).contains(&date.1) && (1..=31).contains(&date.2);
    (is_possible && date_of(day_of(date)) == date).then_some(date)
}

pub(crate) fn is_key(unit: Unit, key: i64) -> bool {
    first_day(unit, key).is_some()
}

/// The prefix of the next period. `key` must be one of a period.
pub(crate) fn key_after(unit: Unit, key: i64) -> i64 {
    let (year, month, day) = first_day(unit, key).expect("the prefix of a period");
    let next = match unit {
        Unit::Year => (year + 1, 1, 1),
        Unit::Month if month == 12 => (year + 1, 1, 1),
        Unit::Month => (year, month + 1, 1),
        Unit::Day => date_of(day_of((year, month, day)) + 1),
    };
    key_of_date(unit, next)
}

/// The start of a period.
pub(crate) fn period_begins_us(unit: Unit, key: i64) -> i64 {
    day_of(first_day(unit, key).expect("the prefix of a period")) * 86_400_000_000
}
