//! The only clock of the machine that this crate reads, and the only place where it waits.

use std::time::{Duration, Instant};

use crate::Micros;

/// Microseconds since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins to count.
    #[expect(clippy::disallowed_methods, reason = "a live run is an observation: its clock is the wall's")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Microseconds since then.
    #[expect(clippy::disallowed_methods, reason = "as above")]
    pub fn now(self) -> Micros {
        Instant::now().duration_since(self.0).as_micros() as Micros
    }
}

/// Lets time go by.
pub fn wait(span: Duration) {
    std::thread::sleep(span);
}
