//! How far a command is: a bar on a terminal, a line every half minute elsewhere. Cells that run count for the part of their jobs that have ended.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sandtable_core::display::span;
use sandtable_plan::Cell;
use sandtable_run::execute::Watched;

/// How often progress is told where stderr is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Parts of a cell that a bar has.
const PARTS: u64 = 1000;

/// What a command has done of its cells.
#[derive(Clone)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Of so many cells, shown unless `hidden` or there are none.
    pub fn of(cells: u64, hidden: bool) -> Progress {
        let bar = ProgressBar::new(cells * PARTS);
        let cells_done = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&done_of(state.pos(), state.len().unwrap_or(0)));
        };
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if let Some(rate) = rate_of(state.per_sec() / PARTS as f64) {
                let _ = write!(out, "{rate}, ");
            }
        };
        if hidden || cells == 0 || super::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        } else if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            tell(bar.clone());
        } else if let Ok(style) = ProgressStyle::with_template("{wide_bar} {cells}  {rate}{elapsed}, {eta} left  {msg}")
        {
            bar.set_style(style.with_key("cells", cells_done).with_key("rate", rate));
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress(bar)
    }

    /// A cell begins; how it is watched, so that it is shown until that is dropped.
    pub fn watched(&self, cell: &Cell, most: Option<sandtable_hardware::Duration>) -> Watched {
        let part = self.begin(&cell.label, cell.setting.workload.len(&cell.fleet));
        Watched { most, ended: Some(Arc::new(move |jobs| part.ended(jobs))) }
    }

    /// A cell of so many jobs begins.
    pub fn begin(&self, label: &str, jobs: usize) -> Part {
        self.0.set_message(label.to_string());
        Part { bar: self.0.clone(), jobs: jobs as u64, done: AtomicU64::new(0) }
    }

    /// Writes a line above the bar, with `--verbose`.
    pub fn detail(&self, text: &str) {
        if super::is_verbose() {
            self.0.suspend(|| super::note(text));
        }
    }

    /// A cell is done of which no part was shown.
    pub fn done(&self) {
        self.0.inc(PARTS);
    }

    /// All is done: nothing more is shown.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// A cell that runs. It is done when this is dropped.
pub struct Part {
    bar: ProgressBar,
    jobs: u64,
    /// Parts that the bar has.
    done: AtomicU64,
}

impl Part {
    /// So many of its jobs have ended. A run that is repeated begins at 0 again, and the bar waits for it.
    pub fn ended(&self, jobs: usize) {
        let done = (jobs as u64 * PARTS).checked_div(self.jobs).unwrap_or(0).min(PARTS);
        // One thread runs a cell: no other changes this between the two.
        let before = self.done.load(Ordering::Relaxed);
        if done > before {
            self.done.store(done, Ordering::Relaxed);
            self.bar.inc(done - before);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.bar.inc(PARTS - self.done.load(Ordering::Relaxed));
    }
}

/// Cells that are done, of how many: with a decimal while some are done in part.
fn done_of(parts: u64, of: u64) -> String {
    let cells = of / PARTS;
    match parts % PARTS {
        0 => format!("{}/{cells} cells", parts / PARTS),
        // Rounded down: all are done when the last one is.
        rest => format!("{}.{}/{cells} cells", parts / PARTS, rest * 10 / PARTS),
    }
}

/// Cells by the second or the minute; none while too few are done to say.
fn rate_of(a_second: f64) -> Option<String> {
    match a_second {
        rate if rate >= 1.0 => Some(format!("{rate:.0} cells/s")),
        rate if rate * 60.0 >= 0.05 => Some(format!("{:.1} cells/min", rate * 60.0)),
        _ => None,
    }
}

/// Tells from time to time how far a hidden bar is, until it is finished.
fn tell(bar: ProgressBar) {
    let telling = move || {
        let mut told = Duration::ZERO;
        // A bar that is finished is seen soon: the thread does not outlive its work by much.
        while !bar.is_finished() {
            std::thread::sleep(Duration::from_millis(250));
            if bar.elapsed() < told + TOLD_EVERY || bar.is_finished() {
                continue;
            }
            told = bar.elapsed();
            super::note(&so_far(bar.position(), bar.length().unwrap_or(0), told.as_secs_f64()));
        }
    };
    // Without a thread there is no telling, and all else goes on.
    let _ = std::thread::Builder::new().name("progress".into()).spawn(telling);
}

/// How far a command is after so many seconds.
fn so_far(parts: u64, of: u64, seconds: f64) -> String {
    let left = match parts {
        0 => String::new(),
        _ => format!(", about {} left", span(seconds / parts as f64 * (of - parts) as f64)),
    };
    let rate = rate_of(parts as f64 / PARTS as f64 / seconds).map_or(String::new(), |rate| format!(", {rate}"));
    format!("{} after {}{rate}{left}", done_of(parts, of).replace('/', " of "), span(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_cells_are_told() {
        let progress = Progress::of(4, true);
        let (first, second) = (progress.begin("a", 10), progress.begin("b", 3));
        first.ended(5);
        second.ended(2);
        second.ended(1);
        let told = || so_far(progress.0.position(), 4 * PARTS, 60.0);
        assert_eq!(told(), "1.1 of 4 cells after 60.0 s, 1.2 cells/min, about 2.43 min left");
        drop((first, second));
        assert_eq!(told(), "2 of 4 cells after 60.0 s, 2.0 cells/min, about 60.0 s left");
        progress.begin("no jobs", 0).ended(0);
        progress.done();
        assert_eq!(done_of(progress.0.position(), 4 * PARTS), "4/4 cells");
        assert_eq!(so_far(0, 4 * PARTS, 30.0), "0 of 4 cells after 30.0 s");
    }
}
