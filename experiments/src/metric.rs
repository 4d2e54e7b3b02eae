//! The metrics of a run: one table of names, units, what each says and where it stands in a summary. Tables, claims,
//! comparisons and reports are made from it.

use sandtable_runtime::{Serving, Summary, Tasks};

/// What a metric is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds; people read minutes, hours and days.
    Seconds,
    /// A part of a whole, 0 to 1; people read per cent.
    Share,
    /// How many times as much.
    Times,
    /// How many.
    Count,
}

/// One metric of a summary.
pub(crate) struct Metric {
    /// In CSV, in claims, on the command line.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// The head of its column in a table for people; beyond so many columns a person reads no more.
    pub(crate) shown: Option<&'static str>,
    /// Only of interest where GPUs are shared.
    pub(crate) shared: bool,
    get: fn(&Summary) -> f64,
}

/// Metrics of completed jobs alone, by how they begin. Where none completed they are not known, and where policies left jobs
/// behind they are of other jobs under each.
const OF_COMPLETED: [&str; 8] =
    ["jct_", "waiting_total_", "first_wait_", "suspended_", "bounded_slowdown_", "stretch", "fairness_", "makespan_"];

const fn of(name: &'static str, unit: Unit, get: fn(&Summary) -> f64) -> Metric {
    Metric { name, unit, shown: None, shared: false, get }
}

impl Metric {
    /// Its value; NaN where it is not known.
    pub(crate) fn of(&self, summary: &Summary) -> f64 {
        if summary.completed == 0 && self.is_of_completed() { f64::NAN } else { (self.get)(summary) }
    }

    /// Whether it is of completed jobs alone.
    pub(crate) fn is_of_completed(&self) -> bool {
        OF_COMPLETED.iter().any(|of| self.name.starts_with(of))
    }

    const fn shown(self, shown: &'static str) -> Metric {
        Metric { shown: Some(shown), ..self }
    }

    const fn where_shared(self) -> Metric {
        Metric { shared: true, ..self }
    }
}

use Unit::{Count, Seconds, Share, Times};

pub(crate) const METRICS: &[Metric] = &[
    of("jct_mean_s", Seconds, |s| s.jct.mean).shown("JCT mean"),
    of("jct_median_s", Seconds, |s| s.jct.median).shown("median"),
    of("jct_p95_s", Seconds, |s| s.jct.p95).shown("p95"),
    of("jct_p99_s", Seconds, |s| s.jct.p99).shown("p99"),
    of("jct_max_s", Seconds, |s| s.jct.max),
    of("waiting_total_mean_s", Seconds, |s| s.waiting_total.mean).shown("waiting mean"),
    of("waiting_total_median_s", Seconds, |s| s.waiting_total.median),
    of("waiting_total_p95_s", Seconds, |s| s.waiting_total.p95),
    of("waiting_total_p99_s", Seconds, |s| s.waiting_total.p99),
    of("waiting_total_max_s", Seconds, |s| s.waiting_total.max),
    of("first_wait_mean_s", Seconds, |s| s.first_wait.mean).shown("first wait"),
    of("first_wait_median_s", Seconds, |s| s.first_wait.median),
    of("first_wait_p95_s", Seconds, |s| s.first_wait.p95),
    of("first_wait_p99_s", Seconds, |s| s.first_wait.p99),
    of("first_wait_max_s", Seconds, |s| s.first_wait.max),
    of("suspended_mean_s", Seconds, |s| s.suspended.mean).shown("suspended"),
    of("suspended_p95_s", Seconds, |s| s.suspended.p95),
    of("suspended_max_s", Seconds, |s| s.suspended.max),
    of("bounded_slowdown_mean", Times, |s| s.bounded_slowdown.mean),
    of("bounded_slowdown_p95", Times, |s| s.bounded_slowdown.p95),
    of("bounded_slowdown_p99", Times, |s| s.bounded_slowdown.p99),
    of("makespan_s", Seconds, |s| s.makespan).shown("makespan"),
    of("utilisation_window", Share, |s| s.utilisation_window).shown("utilisation"),
    of("utilisation", Share, |s| s.utilisation),
    of("throughput_window", Times, |s| s.throughput_window).shown("throughput").where_shared(),
    of("throughput", Times, |s| s.throughput),
    of("gpu_utilisation_window", Share, |s| s.gpu_utilisation_window.unwrap_or(f64::NAN)),
    of("gpu_utilisation", Share, |s| s.gpu_utilisation.unwrap_or(f64::NAN)),
    of("productive_window", Times, |s| s.productive_window),
    of("productive", Times, |s| s.productive),
    of("stretch", Times, |s| s.stretch).shown("stretch").where_shared(),
    of("stretch_p95", Times, |s| s.stretch_p95),
    of("out_of_memory", Count, |s| s.out_of_memory as f64).shown("OOM").where_shared(),
    of("fragmentation", Share, |s| s.fragmentation),
    of("preemptions", Count, |s| s.preemptions as f64).shown("preemptions"),
    of("reassignments", Count, |s| s.reassignments.map_or(f64::NAN, |n| n as f64)),
    of("failures", Count, |s| s.failures as f64),
    of("fairness_jain", Times, |s| s.fairness_jain),
    of("fairness_p95", Times, |s| s.fairness_p95),
    of("fairness_p99", Times, |s| s.fairness_p99).shown("ρ p99"),
    of("fairness_worst", Times, |s| s.fairness_worst),
    of("tasks", Count, |s| tasks(s, |all| all.tasks as f64)),
    of("tasks_done", Count, |s| tasks(s, |all| all.done as f64)),
    of("task_wait_mean_s", Seconds, |s| tasks(s, |all| all.wait.mean)),
    of("task_wait_max_s", Seconds, |s| tasks(s, |all| all.wait.max)),
    of("task_delay_mean_s", Seconds, |s| tasks(s, |all| all.delay.mean)).shown("task delay"),
    of("task_delay_p99_s", Seconds, |s| tasks(s, |all| all.delay.p99)).shown("p99"),
    of("task_delay_max_s", Seconds, |s| tasks(s, |all| all.delay.max)),
    of("task_latency_mean_s", Seconds, |s| tasks(s, |all| all.latency.mean)),
    of("warm", Share, |s| tasks(s, |all| all.warm)).shown("warm"),
    of("in_slo", Share, |s| tasks(s, |all| all.in_slo)).shown("in SLO"),
    of("reclaimed", Count, |s| serving(s, |of| of.reclaimed as f64)).shown("reclaimed"),
    of("gpus_training", Share, |s| serving(s, |of| of.uses[0])),
    of("gpus_loaned", Share, |s| serving(s, |of| of.uses[1])).shown("loaned"),
    of("gpus_serving", Share, |s| serving(s, |of| of.uses[2])),
    of("gpus_protected", Share, |s| serving(s, |of| of.uses[3])),
    of("gpus_idle", Share, |s| serving(s, |of| of.uses[4])),
    of("jobs", Count, |s| s.jobs as f64),
    of("left_out", Count, |s| s.left_out as f64),
    of("completed", Count, |s| s.completed as f64),
    of("rejected", Count, |s| s.rejected as f64),
    of("crashed", Count, |s| s.crashed as f64),
    of("unfinished", Count, |s| s.unfinished as f64),
];

/// A number of the inference side; NaN where there is none.
fn serving(summary: &Summary, get: fn(&Serving) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, get)
}

fn tasks(summary: &Summary, get: fn(&Tasks) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, |serving| get(&serving.all))
}

/// A metric by its name.
pub(crate) fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// The names of all metrics.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|metric| metric.name)
}

impl Unit {
    /// A value for people.
    pub(crate) fn text(self, x: f64) -> String {
        match self {
            Unit::Seconds => span(x),
            Unit::Share => percent(x, false),
            Unit::Times => format!("{:.2}", unsigned_zero(x, 2)),
            Unit::Count => format!("{:.0}", unsigned_zero(x, 0)),
        }
    }

    /// A mean and the half of its interval for people, in one unit.
    pub(crate) fn interval(self, mean: f64, half: f64) -> String {
        match self {
            Unit::Seconds => {
                let (scale, unit) = scale(mean);
                let digits = digits(mean / scale);
                format!("{:.digits$} ± {:.digits$} {unit}", mean / scale, half / scale)
            }
            Unit::Share => format!("{:.1} ± {:.1} %", unsigned_zero(100.0 * mean, 1), 100.0 * half),
            Unit::Times => format!("{:.2} ± {half:.2}", unsigned_zero(mean, 2)),
            Unit::Count => format!("{:.1} ± {half:.1}", unsigned_zero(mean, 1)),
        }
    }
}

/// A part for people, in per cent to one digit; with its sign where it is a change.
pub(crate) fn percent(x: f64, signed: bool) -> String {
    let x = unsigned_zero(100.0 * x, 1);
    // What is no change has no direction.
    if signed && x != 0.0 { format!("{x:+.1} %") } else { format!("{x:.1} %") }
}

/// 0 for what so many digits print as 0: there is no "-0.0".
pub(crate) fn unsigned_zero(x: f64, digits: u32) -> f64 {
    if x.abs() * f64::from(10u32.pow(digits)) < 0.5 { 0.0 } else { x }
}

fn scale(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        s if s < 120.0 => (1.0, "s"),
        s if s < 7_200.0 => (60.0, "min"),
        s if s < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    }
}

fn digits(value: f64) -> usize {
    if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) }
}

/// A time for people: three digits and a unit.
pub fn span(seconds: f64) -> String {
    let (scale, unit) = scale(seconds);
    let value = seconds / scale;
    let digits = digits(value);
    format!("{:.digits$} {unit}", unsigned_zero(value, digits as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_unit() {
        assert_eq!(find("utilisation_window").map(|metric| metric.unit.text(0.388)), Some("38.8 %".into()));
        assert_eq!(find("fairness_jain").map(|metric| metric.unit.text(0.977)), Some("0.98".into()));
        assert_eq!(find("preemptions").map(|metric| metric.unit.text(17.0)), Some("17".into()));
        assert_eq!(Unit::Seconds.interval(2496.0, 126.0), "41.6 ± 2.1 min");
        assert_eq!(Unit::Seconds.text(-30.0), "-30.0 s");
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(percent(-0.0004, true), "0.0 %");
        assert_eq!(percent(-0.0006, true), "-0.1 %");
        assert_eq!(percent(0.012, true), "+1.2 %");
        assert_eq!(Unit::Times.text(-0.001), "0.00");
        assert_eq!(Unit::Count.text(-0.2), "0");
        assert_eq!(span(-0.001), "0.00 s");
    }

    #[test]
    fn every_name_stands_once() {
        let mut all: Vec<&str> = names().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), METRICS.len());
    }
}
