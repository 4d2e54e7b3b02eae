//! The only clocks of the machine that this crate reads, and the only place where it waits.

use rustix::time::{ClockId, clock_gettime};

use crate::{Duration, Instant};

/// Tells the time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(std::time::Instant);

impl Clock {
    /// Begins to count.
    #[expect(clippy::disallowed_methods, reason = "a live run is an observation: its clock is the wall's")]
    pub fn start() -> Clock {
        Clock(std::time::Instant::now())
    }

    /// The present instant; its start is the start of the clock.
    pub fn now(self) -> Instant {
        Instant::from_micros(self.0.elapsed().as_micros() as u64)
    }
}

/// How long this thread has run on a processor since it began; what other processes do beside it does not count.
pub fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_micros(spent.tv_sec.unsigned_abs() * 1_000_000 + spent.tv_nsec.unsigned_abs() / 1_000)
}

/// Lets time go by.
pub fn wait(span: Duration) {
    std::thread::sleep(span.into());
}
