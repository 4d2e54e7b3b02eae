//! The metrics of a run: one table, from which tables, claims, comparisons, reports and the book's page are made.

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_runtime::{Deadlines, QueueUse, Serving, Summary, Tasks};

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower ones.
    Lower,
    /// Higher ones.
    Higher,
    /// Neither: it describes a run.
    Neither,
}

impl Better {
    /// Whether a value that is this much off another is better than it; none where neither way is.
    pub fn is_better(self, change: f64) -> Option<bool> {
        match self {
            Better::Lower => Some(change < 0.0),
            Better::Higher => Some(change > 0.0),
            Better::Neither => None,
        }
    }
}

/// Which runs have a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// Every run.
    Run,
    /// Runs in which a job completed. It is of completed jobs alone: where policies left jobs behind, it is of other jobs under
    /// each.
    Completed,
    /// Runs whose workloads have a known utilisation.
    Profiled,
    /// Runs with elastic jobs.
    Elastic,
    /// Runs with services.
    Serving,
    /// Runs with queues.
    Queued,
    /// Runs in which a job has a deadline.
    Due,
    /// Runs in which a job with a deadline completed. It is of those jobs alone.
    CompletedDue,
}

/// One metric of a summary.
#[non_exhaustive]
pub struct Metric {
    /// Its name in CSV, in claims and on the command line.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which of its values are better.
    pub better: Better,
    /// Which runs have it.
    pub has: Has,
    /// What it says, in a sentence.
    pub about: &'static str,
    /// The head of its column in a table for people; `None`: the table leaves it out.
    pub shown: Option<&'static str>,
    /// Whether it only says something where GPUs are shared.
    pub shared: bool,
    /// Whether a comparison looks at it unless it is asked for one metric.
    pub compared: bool,
    get: fn(&Summary) -> f64,
}

const fn of(
    name: &'static str,
    unit: Unit,
    better: Better,
    has: Has,
    get: fn(&Summary) -> f64,
    about: &'static str,
) -> Metric {
    Metric { name, unit, better, has, about, shown: None, shared: false, compared: false, get }
}

impl Metric {
    /// Its value; NaN where it is not known.
    pub fn of(&self, summary: &Summary) -> f64 {
        if summary.completed == 0 && self.is_of_completed() { f64::NAN } else { (self.get)(summary) }
    }

    /// Its name as a figure has it, without its unit.
    ///
    /// ```
    /// use sandtable_results::metric::find;
    ///
    /// assert_eq!(find("jct_mean_s").expect("a metric").words(), "JCT mean");
    /// ```
    pub fn words(&self) -> String {
        let word = |word| match word {
            "jct" => "JCT",
            "gpu" => "GPU",
            "gpus" => "GPUs",
            word => word,
        };
        let name = self.name.strip_suffix("_s").unwrap_or(self.name);
        name.split('_').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Whether it is of completed jobs alone.
    pub fn is_of_completed(&self) -> bool {
        matches!(self.has, Has::Completed | Has::CompletedDue)
    }

    const fn shown(self, shown: &'static str) -> Metric {
        Metric { shown: Some(shown), ..self }
    }

    const fn where_shared(self) -> Metric {
        Metric { shared: true, ..self }
    }

    const fn compared(self) -> Metric {
        Metric { compared: true, ..self }
    }
}

use Better::{Higher, Lower, Neither};
use Has::{Completed, CompletedDue, Due, Elastic, Profiled, Queued, Run, Serving as Serves};
use Unit::{Count, GpuHours, Seconds, Share, Times};

/// Every metric, in the order of the columns.
pub const METRICS: &[Metric] = &[
    of("jct_mean_s", Seconds, Lower, Completed, |s| s.jct.mean, "Job completion time, from submission to completion: the mean.").shown("JCT mean").compared(),
    of("jct_median_s", Seconds, Lower, Completed, |s| s.jct.median, "The median of the job completion times.").shown("median").compared(),
    of("jct_p95_s", Seconds, Lower, Completed, |s| s.jct.p95, "The 95th percentile of the job completion times.").shown("p95").compared(),
    of("jct_p99_s", Seconds, Lower, Completed, |s| s.jct.p99, "The 99th percentile of the job completion times.").shown("p99").compared(),
    of("jct_max_s", Seconds, Lower, Completed, |s| s.jct.max, "The longest job completion time."),
    of("waiting_total_mean_s", Seconds, Lower, Completed, |s| s.waiting_total.mean, "Time without GPUs between submission and completion: the mean.").shown("waiting mean").compared(),
    of("waiting_total_median_s", Seconds, Lower, Completed, |s| s.waiting_total.median, "The median of the times without GPUs."),
    of("waiting_total_p95_s", Seconds, Lower, Completed, |s| s.waiting_total.p95, "The 95th percentile of the times without GPUs."),
    of("waiting_total_p99_s", Seconds, Lower, Completed, |s| s.waiting_total.p99, "The 99th percentile of the times without GPUs."),
    of("waiting_total_max_s", Seconds, Lower, Completed, |s| s.waiting_total.max, "The longest time without GPUs."),
    of("first_wait_mean_s", Seconds, Lower, Completed, |s| s.first_wait.mean, "Time from submission to the first GPUs: the mean.").shown("first wait"),
    of("first_wait_median_s", Seconds, Lower, Completed, |s| s.first_wait.median, "The median of the times to the first GPUs."),
    of("first_wait_p95_s", Seconds, Lower, Completed, |s| s.first_wait.p95, "The 95th percentile of the times to the first GPUs."),
    of("first_wait_p99_s", Seconds, Lower, Completed, |s| s.first_wait.p99, "The 99th percentile of the times to the first GPUs."),
    of("first_wait_max_s", Seconds, Lower, Completed, |s| s.first_wait.max, "The longest time to the first GPUs."),
    of("suspended_mean_s", Seconds, Lower, Completed, |s| s.suspended.mean, "Time without GPUs after a preemption, a failure or for want of memory: the mean.").shown("suspended"),
    of("suspended_p95_s", Seconds, Lower, Completed, |s| s.suspended.p95, "The 95th percentile of the suspended times."),
    of("suspended_max_s", Seconds, Lower, Completed, |s| s.suspended.max, "The longest suspended time."),
    of("bounded_slowdown_mean", Times, Lower, Completed, |s| s.bounded_slowdown.mean, "Bounded slowdown (Feitelson et al. 1997): completion time over the time alone on the best GPU type, start included and at least 10 s; at least 1. The mean."),
    of("bounded_slowdown_p95", Times, Lower, Completed, |s| s.bounded_slowdown.p95, "The 95th percentile of the bounded slowdowns."),
    of("bounded_slowdown_p99", Times, Lower, Completed, |s| s.bounded_slowdown.p99, "The 99th percentile of the bounded slowdowns."),
    of("makespan_s", Seconds, Lower, Completed, |s| s.makespan, "From the first submission to the last completion.").shown("makespan").compared(),
    of("utilisation_window", Share, Higher, Run, |s| s.utilisation_window, "GPU-time held over all GPU-time, in the window.").shown("utilisation").compared(),
    of("utilisation", Share, Higher, Run, |s| s.utilisation, "GPU-time held over all GPU-time, until the last job lets its GPUs go."),
    of("throughput_window", Times, Higher, Run, |s| s.throughput_window, "Progress over the progress of all GPUs with one job alone on each, in the window; above 1 where sharing pays.").shown("throughput").where_shared(),
    of("throughput", Times, Higher, Run, |s| s.throughput, "The same, until the last job lets its GPUs go."),
    of("gpu_utilisation_window", Share, Higher, Profiled, |s| s.gpu_utilisation_window.unwrap_or(f64::NAN), "What the GPUs would report as their utilisation, in the window."),
    of("gpu_utilisation", Share, Higher, Profiled, |s| s.gpu_utilisation.unwrap_or(f64::NAN), "The same, until the last job lets its GPUs go."),
    of("productive_window", Times, Higher, Run, |s| s.productive_window, "Time of jobs with progress that lasted, over all GPU-time, in the window; each job on a shared GPU counts."),
    of("productive", Times, Higher, Run, |s| s.productive, "The same, until the last job lets its GPUs go."),
    of("stretch", Times, Lower, Completed, |s| s.stretch, "Time with progress over time alone on the best GPU type: what sharing and slower types cost, without waits. The mean.").shown("stretch").where_shared().compared(),
    of("stretch_p95", Times, Lower, Completed, |s| s.stretch_p95, "The 95th percentile of the stretches."),
    of("out_of_memory", Count, Lower, Run, |s| s.out_of_memory as f64, "How often a job ran out of memory.").shown("OOM").where_shared(),
    of("fragmentation", Share, Lower, Run, |s| s.fragmentation, "Free GPU-time on partly used nodes, over all free GPU-time (reconstruction: publications differ)."),
    of("fragments_window", Share, Lower, Run, |s| s.fragments_window.unwrap_or(f64::NAN), "Free GPU-time that the most common 95 % of the jobs have no use for, over all GPU-time, in the window (Weng et al., ATC 2023)."),
    of("fragments", Share, Lower, Run, |s| s.fragments.unwrap_or(f64::NAN), "The same, until the last job lets its GPUs go."),
    of("preemptions", Count, Lower, Run, |s| s.preemptions as f64, "How often a policy took GPUs from a job.").shown("preemptions").compared(),
    of("reassignments", Count, Neither, Elastic, |s| s.reassignments.map_or(f64::NAN, |n| n as f64), "How often an elastic job went on with other GPUs."),
    of("failures", Count, Neither, Run, |s| s.failures as f64, "How often a node failed under a job, or its owner took it back."),
    of("fairness_jain", Times, Higher, Completed, |s| s.fairness_jain, "Jain's index over the fair shares received (1/ρ): 1 is perfectly fair."),
    of("fairness_p95", Times, Lower, Completed, |s| s.fairness_p95, "Finish-time fairness ρ (Themis, NSDI 2020): completion time over the time with a fair share of the contended cluster. The 95th percentile."),
    of("fairness_p99", Times, Lower, Completed, |s| s.fairness_p99, "The 99th percentile of ρ.").shown("ρ p99").compared(),
    of("fairness_worst", Times, Lower, Completed, |s| s.fairness_worst, "The greatest ρ."),
    of("tasks", Count, Neither, Serves, |s| tasks(s, |all| all.tasks as f64), "Tasks of services that were asked for."),
    of("tasks_done", Count, Higher, Serves, |s| tasks(s, |all| all.done as f64), "Tasks that were done."),
    of("task_wait_mean_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.wait.mean), "From the request of a task to its GPU: the mean."),
    of("task_wait_max_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.wait.max), "The longest wait of a task for its GPU."),
    of("task_delay_mean_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.delay.mean), "From the request of a task to its service, loading the model included: the mean.").shown("task delay").compared(),
    of("task_delay_p99_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.delay.p99), "The 99th percentile of the delays of tasks.").shown("p99"),
    of("task_delay_max_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.delay.max), "The longest delay of a task."),
    of("task_latency_mean_s", Seconds, Lower, Serves, |s| tasks(s, |all| all.latency.mean), "From the request of a task to its end: the mean."),
    of("warm", Share, Higher, Serves, |s| tasks(s, |all| all.warm), "Tasks that found their model loaded, of those that were done.").shown("warm"),
    of("in_slo", Share, Higher, Serves, |s| tasks(s, |all| all.in_slo), "Tasks that were served within the time that their service promises, of all.").shown("in SLO"),
    of("reclaimed", Count, Neither, Serves, |s| serving(s, |of| of.reclaimed as f64), "GPUs that a task took the instant a training job let them go.").shown("reclaimed"),
    of("gpus_training", Share, Neither, Serves, |s| serving(s, |of| of.uses[0]), "GPU-time of training jobs on the training pool, over all GPU-time."),
    of("gpus_loaned", Share, Neither, Serves, |s| serving(s, |of| of.uses[1]), "GPU-time of training jobs on the inference pool, over all GPU-time.").shown("loaned"),
    of("gpus_serving", Share, Neither, Serves, |s| serving(s, |of| of.uses[2]), "GPU-time that serves or has a model loaded, over all GPU-time."),
    of("gpus_protected", Share, Neither, Serves, |s| serving(s, |of| of.uses[3]), "Free GPU-time that is kept for a service, over all GPU-time."),
    of("gpus_idle", Share, Neither, Serves, |s| serving(s, |of| of.uses[4]), "Free GPU-time, over all GPU-time."),
    of("queues_short", Share, Lower, Queued, |s| queues(s, |of| of.short, |of| of.deserved), "GPU-time that queues deserved and did not hold, over what they deserved, in the window; a queue deserves what it is guaranteed and its part by weight of the rest, as far as its jobs ask for it.").shown("short").compared(),
    of("queues_borrowed", Share, Neither, Queued, |s| queues(s, |of| of.borrowed, |of| of.held), "GPU-time that queues held beyond what they are guaranteed, over what they held, in the window.").shown("borrowed"),
    of("queues_reclaimed_gpu_h", GpuHours, Neither, Queued, reclaimed, "GPU-hours that jobs held, in the window, of GPUs that the policy took from jobs of other queues, as long as those wait.").shown("reclaimed"),
    of("deadlines", Count, Neither, Due, |s| deadlines(s, |of| of.jobs as f64), "Jobs with a deadline."),
    of("deadlines_met", Share, Higher, Due, |s| deadlines(s, |of| of.met as f64 / of.jobs as f64), "Jobs that completed by their deadline, of all that have one: refused and unfinished ones count as missed.").shown("deadlines met").compared(),
    of("tardiness_mean_s", Seconds, Lower, CompletedDue, |s| tardiness(s, |of| of.tardiness_mean), "How long after its deadline a job completed, 0 if before: the mean over completed jobs that have one.").shown("tardiness"),
    of("tardiness_max_s", Seconds, Lower, CompletedDue, |s| tardiness(s, |of| of.tardiness_max), "The longest of these times."),
    of("refused", Count, Neither, Run, |s| s.refused as f64, "Jobs that the policy refused."),
    of("jobs", Count, Neither, Run, |s| s.jobs as f64, "Jobs that count: training jobs submitted in the window."),
    of("left_out", Count, Neither, Run, |s| s.left_out as f64, "Jobs submitted outside of the window."),
    of("completed", Count, Higher, Run, |s| s.completed as f64, "Jobs that completed.").compared(),
    of("rejected", Count, Lower, Run, |s| s.rejected as f64, "Jobs that could never run on the fleet."),
    of("crashed", Count, Lower, Run, |s| s.crashed as f64, "Jobs whose process failed; on real machines only."),
    of("unfinished", Count, Lower, Run, |s| s.unfinished as f64, "Jobs that the run left behind."),
];

/// A number of the inference side; NaN where there is none.
fn serving(summary: &Summary, get: fn(&Serving) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, get)
}

/// A part of a whole, summed over the queues that are no groups; NaN where the whole is nothing.
fn queues(summary: &Summary, part: fn(&QueueUse) -> f64, whole: fn(&QueueUse) -> f64) -> f64 {
    let all = |get: fn(&QueueUse) -> f64| summary.queues.iter().filter(|of| !of.is_group).map(get).sum::<f64>();
    if all(whole) > 0.0 { all(part) / all(whole) } else { f64::NAN }
}

/// GPU-hours that queues took from others; NaN where there are none.
fn reclaimed(summary: &Summary) -> f64 {
    let of_queues = summary.queues.iter().filter(|of| !of.is_group).map(|of| of.reclaimed_gpu_h);
    if summary.queues.is_empty() { f64::NAN } else { of_queues.sum() }
}

/// A number of the jobs with deadlines; NaN where there are none.
fn deadlines(summary: &Summary, get: fn(&Deadlines) -> f64) -> f64 {
    summary.deadlines.as_ref().map_or(f64::NAN, get)
}

/// How late completed jobs were; NaN where none with a deadline completed.
fn tardiness(summary: &Summary, get: fn(&Deadlines) -> f64) -> f64 {
    summary.deadlines.as_ref().filter(|of| of.completed > 0).map_or(f64::NAN, get)
}

fn tasks(summary: &Summary, get: fn(&Tasks) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, |serving| get(&serving.all))
}

/// A metric by its name.
///
/// ```
/// use sandtable_results::metric::{Better, find};
///
/// let metric = find("jct_mean_s").expect("a metric");
/// assert_eq!((metric.better, metric.unit.text(90.0).as_str()), (Better::Lower, "90.0 s"));
/// ```
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// A metric by its name as people write it: `jct-mean` is `jct_mean_s`.
///
/// # Errors
/// There is none of that name; it says which is near.
pub fn named(name: &str) -> Result<&'static Metric, Error> {
    let spelt = name.replace('-', "_");
    find(&spelt).or_else(|| find(&format!("{spelt}_s"))).ok_or_else(|| {
        let short = names().map(|name| name.strip_suffix("_s").unwrap_or(name));
        let error = Error::usage(format!("no metric `{name}`"));
        error.hint(match sandtable_core::text::nearest(&spelt, short.chain(names())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`sandtable reference metrics` lists them".to_string(),
        })
    })
}

/// The names of all metrics.
pub fn names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|metric| metric.name)
}

/// The table of all metrics as a page of the book.
pub fn page() -> String {
    let mut out = String::from(
        "# Every metric\n\nMade from the code (`experiments/results/src/metric.rs`). The names are those of CSV, JSON, claims and `--metric`. Times \
         of jobs are of those that completed; *the window* is what the spec's `measure` says.\n\n\
         | name | unit | better | which runs have it | what it says |\n| --- | --- | --- | --- | --- |\n",
    );
    for metric in METRICS {
        let better = match metric.better {
            Lower => "lower",
            Higher => "higher",
            Neither => "-",
        };
        let has = match metric.has {
            Run => "all",
            Completed => "those in which a job completed",
            Profiled => "those whose workloads have a known utilisation",
            Elastic => "those with elastic jobs",
            Serves => "those with services",
            Queued => "those with queues",
            Due => "those in which a job has a deadline",
            CompletedDue => "those in which a job with a deadline completed",
        };
        let name = metric.shown.map_or(String::new(), |shown| format!(" (\"{shown}\" in tables)"));
        out.push_str(&format!(
            "| `{}`{name} | {} | {better} | {has} | {} |\n",
            metric.name,
            metric.unit.name(),
            metric.about
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_and_says_something() {
        let mut all: Vec<&str> = names().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), METRICS.len());
        for metric in METRICS {
            assert!(metric.about.ends_with('.') && !metric.about.contains('|'), "{}", metric.name);
            // A name says what its unit is.
            assert_eq!(metric.name.ends_with("_s"), metric.unit == Seconds, "{}", metric.name);
        }
    }
}
