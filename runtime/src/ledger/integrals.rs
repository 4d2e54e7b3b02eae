//! Integrals over time: over a whole run, and over the part of it that is measured.

use sandtable_hardware::{Duration, Instant};

use crate::window::{Until, Window};

/// What goes on at an instant; in GPUs unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// Given away, in thousandths.
    pub(super) allocated: u64,
    /// Every job on a GPU counts.
    pub(super) resident: u64,
    /// GPUs' worth of progress.
    pub(super) progress: f64,
    /// What GPUs show as their utilisation; 0 where it is not known of the jobs.
    pub(super) busy: f64,
    /// Of jobs that make progress; every job on a shared GPU counts.
    pub(super) progressing: u64,
    /// Free ones on nodes that are partly used.
    pub(super) fragmented: u64,
    /// Free ones that typical jobs have no use for, in 10^-9.
    pub(super) fragments: u64,
    /// Free ones.
    pub(super) free: u64,
    /// Asked for by jobs that have been submitted and have not ended.
    pub(super) demanded: u64,
}

/// Integrals of [`Rates`] over time, GPU-microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimeIntegrals {
    pub(crate) time: Duration,
    /// In thousandths.
    pub(crate) allocated: u128,
    pub(super) resident: u128,
    pub(crate) progress: f64,
    pub(crate) busy: f64,
    pub(crate) productive: u128,
    pub(crate) fragmented: u128,
    /// In 10^-9.
    pub(crate) fragments: u128,
    pub(crate) free: u128,
    pub(super) demanded: u128,
}

impl TimeIntegrals {
    fn add(&mut self, rates: &Rates, span: Duration) {
        let area = |gpus: u64| u128::from(gpus) * u128::from(span.as_micros());
        self.time += span;
        self.allocated += area(rates.allocated);
        self.resident += area(rates.resident);
        self.progress += rates.progress * span.as_micros_f64();
        self.busy += rates.busy * span.as_micros_f64();
        self.productive += area(rates.progressing);
        self.fragmented += area(rates.fragmented);
        self.fragments += area(rates.fragments);
        self.free += area(rates.free);
        self.demanded += area(rates.demanded);
    }

    /// Takes back progress that did not last.
    fn lose(&mut self, time: Duration, gpus: u32) {
        let lost = u128::from(time.as_micros()) * u128::from(gpus);
        self.productive -= lost.min(self.productive);
    }
}

/// The integrals of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// What of the run is measured.
    pub(crate) window: Window,
    /// When the run began.
    pub(super) began: Instant,
    /// When the window ends.
    end: Instant,
    pub(super) all: TimeIntegrals,
    /// All until GPUs were last let go: what comes after is waiting for jobs that will never start.
    pub(crate) active: TimeIntegrals,
    inside: TimeIntegrals,
    /// What lies in the window, until GPUs were last let go.
    inside_active: TimeIntegrals,
}

impl Measured {
    /// By default until the last submission; all submissions lie between the two.
    pub(super) fn new(window: Window, first: Instant, last: Instant) -> Measured {
        let mut measured = Measured { window, end: last, ..Measured::default() };
        if window.until == Until::LastArrival && first == last {
            // All at once: until the last submission nothing happens.
            measured.window.until = Until::AllEnded;
        }
        match measured.window.until {
            Until::LastArrival => {}
            Until::AllEnded => measured.end = Instant::MAX,
            Until::At(end) => measured.end = end,
        }
        measured
    }

    /// The run begins then; where all jobs were submitted before, it is measured until all have ended.
    pub(super) fn begin(&mut self, at: Instant) {
        self.began = at;
        if at > Instant::START && self.window.until == Until::LastArrival && self.end <= at {
            (self.window.until, self.end) = (Until::AllEnded, Instant::MAX);
        }
    }

    pub(super) fn advance(&mut self, from: Instant, to: Instant, rates: &Rates) {
        let inside = self.inside(from, to);
        if !inside.is_zero() {
            self.inside.add(rates, inside);
        }
        self.all.add(rates, to - from);
    }

    /// How much of a stretch lies in the window.
    pub(super) fn inside(&self, from: Instant, to: Instant) -> Duration {
        to.min(self.end).saturating_since(from.max(self.window.warm_up))
    }

    /// The last progress of a job that stopped then did not last.
    pub(super) fn lose(&mut self, lost: Duration, stopped: Instant, gpus: u32) {
        self.all.lose(lost, gpus);
        let inside = self.inside(stopped - lost.min(stopped.since_start()), stopped);
        self.inside.lose(inside, gpus);
    }

    /// GPUs were let go: until now the run counts.
    pub(super) fn let_go(&mut self) {
        (self.active, self.inside_active) = (self.all, self.inside);
    }

    /// How much of a window that ends at a given instant comes after this one.
    pub(super) fn after(&self, now: Instant) -> Duration {
        if matches!(self.window.until, Until::At(_)) { self.inside(now, self.end.max(now)) } else { Duration::ZERO }
    }

    /// Of what was integrated over the window, up to its end and up to when GPUs were last let go: that which counts.
    pub(crate) fn of_window<'a, T>(&self, inside: &'a T, active: &'a T) -> &'a T {
        if self.window.until == Until::AllEnded { active } else { inside }
    }

    /// What lies in the window.
    pub(crate) fn in_window(&self) -> TimeIntegrals {
        match self.window.until {
            Until::LastArrival => self.inside,
            Until::AllEnded => self.inside_active,
            // As long for every policy: where the last job ends before it does, the rest is idle.
            Until::At(end) => {
                TimeIntegrals { time: end.saturating_since(self.window.warm_up.max(self.began)), ..self.inside }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::{Costs, Fleet, GpuId, GpuType, Job, JobId, SECOND};

    use super::super::Ledger;
    use super::*;

    #[test]
    fn what_is_lost_was_done_before_it_stopped() {
        let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
        let window = Window { warm_up: Instant::START, until: Until::At(Instant::at(90 * SECOND)) };
        let mut ledger =
            Ledger::new(&fleet, &[Job::new("j", Instant::START, 1, 200 * SECOND)].into(), false).measuring(window);
        ledger.submitted(JobId::new(0));
        ledger.given(JobId::new(0), &[GpuId::new(0)]).expect("free");
        ledger.running(JobId::new(0));
        ledger.advance(Instant::at(100 * SECOND)).expect("on");
        ledger.stopped(JobId::new(0), true);
        // It drains for ten seconds; the last twenty of its progress, from 80 s to 100 s, are lost.
        ledger.advance(Instant::at(110 * SECOND)).expect("on");
        ledger.released(JobId::new(0), 20 * SECOND);
        let (all, inside) = (ledger.measured.active, ledger.measured.in_window());
        assert_eq!((all.productive, inside.productive), (80_000_000, 80_000_000));
        assert_eq!(inside.time, 90 * SECOND);
    }
}
