//! Instants and durations of an experiment: whole microseconds, which cannot be mixed up with each other, with seconds
//! or with counts.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A second.
pub const SECOND: Duration = Duration::from_micros(1_000_000);

/// A span of time: whole microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(u64);

/// An instant: whole microseconds since the start of the experiment.
///
/// ```
/// use sandtable_hardware::{Duration, Instant, SECOND};
///
/// let submitted = Instant::START + 90 * SECOND;
/// assert_eq!(submitted - Instant::at(60 * SECOND), Duration::from_micros(30_000_000));
/// assert_eq!(submitted.as_secs_f64(), 90.0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(u64);

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);

    /// The longest.
    pub const MAX: Duration = Duration(u64::MAX);

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Duration {
        Duration(micros)
    }

    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Duration {
        Duration(seconds * SECOND.0)
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Duration {
        Duration(millis * 1000)
    }

    /// So many microseconds, rounded down; 0 for negative numbers and NaN, [`Duration::MAX`] for what is longer.
    pub const fn from_micros_f64(micros: f64) -> Duration {
        Duration(micros as u64)
    }

    /// Microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Microseconds as a double: exact below 2^53.
    pub const fn as_micros_f64(self) -> f64 {
        self.0 as f64
    }

    /// Seconds.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / SECOND.0 as f64
    }

    /// Whether it is no time.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The sum, at most [`Duration::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }

    /// The difference, or none at all.
    #[must_use]
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }

    /// The product, at most [`Duration::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Duration {
        Duration(self.0.saturating_mul(times))
    }
}

impl Instant {
    /// The start of the experiment.
    pub const START: Instant = Instant(0);

    /// 2^53 microseconds: instants of an experiment are earlier, so that they are exact as doubles.
    pub const END: Instant = Instant(1 << 53);

    /// The latest that there is; later than [`Instant::END`].
    pub const MAX: Instant = Instant(u64::MAX);

    /// The instant so long after the start.
    pub const fn at(since_start: Duration) -> Instant {
        Instant(since_start.0)
    }

    /// The instant so many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros)
    }

    /// Microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / SECOND.0 as f64
    }

    /// Time since the start.
    pub const fn since_start(self) -> Duration {
        Duration(self.0)
    }

    /// Time since an instant; none at all if that is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Whether it is a whole number of periods after the start; a period must be above 0.
    pub const fn is_multiple_of(self, period: Duration) -> bool {
        self.0.is_multiple_of(period.0)
    }

    /// The first instant, this one included, that is a whole number of periods after the start; a period must be above
    /// 0.
    #[must_use]
    pub const fn next_multiple_of(self, period: Duration) -> Instant {
        Instant(self.0.next_multiple_of(period.0))
    }

    /// The instant so much later, at most [`Instant::MAX`].
    #[must_use]
    pub const fn saturating_add(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(by.0))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> std::time::Duration {
        std::time::Duration::from_micros(span.0)
    }
}

// As the number alone, in messages and in what is hashed.
impl fmt::Debug for Duration {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, to)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, to)
    }
}

/// Microseconds, without a unit.
impl fmt::Display for Duration {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, to)
    }
}

/// Microseconds since the start, without a unit.
impl fmt::Display for Instant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, to)
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        self.0 += other.0;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, times: u64) -> Duration {
        Duration(self.0 * times)
    }
}

impl Mul<Duration> for u64 {
    type Output = Duration;
    fn mul(self, span: Duration) -> Duration {
        span * self
    }
}

impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, parts: u64) -> Duration {
        Duration(self.0 / parts)
    }
}

/// How often the other fits in, whole.
impl Div for Duration {
    type Output = u64;
    fn div(self, other: Duration) -> u64 {
        self.0 / other.0
    }
}

impl Rem for Duration {
    type Output = Duration;
    fn rem(self, other: Duration) -> Duration {
        Duration(self.0 % other.0)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(spans: I) -> Duration {
        spans.fold(Duration::ZERO, Add::add)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0 + span.0)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        self.0 += span.0;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        Duration(self.0 - earlier.0)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0 - span.0)
    }
}
