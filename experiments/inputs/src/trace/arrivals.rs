//! When jobs arrive: an arrival process over the time that gives the load.

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Instant, SECOND};

use super::Arrivals;

/// When jobs arrive.
pub struct Instants {
    points: Points,
    stretch: f64,
}

impl Instants {
    /// Those of so many jobs, on GPUs that do `capacity` GPU-µs of work in a microsecond; `work`: that of all jobs in GPU-µs.
    pub fn new((arrivals, jobs): (Arrivals, u32), capacity: f64, seed: u64, work: impl Fn() -> f64) -> Instants {
        let points = |rate| Points {
            arrivals,
            rate,
            stream: Stream::new(seed, "workload/arrivals"),
            last: 0.0,
            burst_goes_on: false,
        };
        let span = |load: f64| work() / capacity / load;
        match arrivals {
            Arrivals::AtOnce => Instants { points: points(0.0), stretch: 0.0 },
            // A stationary process, then the clock bent so that its rate follows 1 + (peak - 1) sin.
            Arrivals::Diurnal { load, .. } => Instants { points: points(f64::from(jobs) / span(load)), stretch: 1.0 },
            // Instants in arbitrary units first, then stretched to the span that gives the load.
            Arrivals::Poisson { load } | Arrivals::Bursts { load, .. } => {
                let mut drawn = points(1.0);
                let last = (0..jobs).map(|_| drawn.next()).last().unwrap_or(0.0);
                let stretch = if last > 0.0 { span(load) / last } else { 0.0 };
                Instants { points: points(1.0), stretch }
            }
        }
    }

    /// The next; none is before the one before it.
    pub fn next(&mut self) -> Instant {
        let at = self.points.next() * self.stretch;
        Instant::at((at / SECOND.as_micros_f64()) as u64 * SECOND)
    }
}

/// Points of an arrival process.
struct Points {
    arrivals: Arrivals,
    /// Arrivals in a microsecond, where its peaks follow the clock.
    rate: f64,
    stream: Stream,
    last: f64,
    burst_goes_on: bool,
}

impl Points {
    fn next(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::AtOnce => 0.0,
            Arrivals::Poisson { .. } => {
                self.last += self.stream.exponential(1.0);
                self.last
            }
            Arrivals::Bursts { size, .. } => {
                if !self.burst_goes_on {
                    self.last += self.stream.exponential(size);
                }
                // Geometric with mean `size`.
                self.burst_goes_on = self.stream.uniform() >= 1.0 / size;
                self.last
            }
            Arrivals::Diurnal { peak, .. } => {
                self.last += self.stream.exponential(1.0) / self.rate;
                bend(self.last, 86_400.0 * SECOND.as_micros_f64(), peak - 1.0)
            }
        }
    }
}

/// The instant t at which the integral of 1 - a cos(2πt/day), a rate whose sine starts at its trough, reaches `mass`.
fn bend(mass: f64, day: f64, a: f64) -> f64 {
    let omega = std::f64::consts::TAU / day;
    let (mut low, mut high) = (mass - day, mass + day);
    for _ in 0..64 {
        let mid = 0.5 * (low + high);
        if mid - a * libm::sin(omega * mid) / omega < mass { low = mid } else { high = mid }
    }
    (0.5 * (low + high)).max(0.0)
}
