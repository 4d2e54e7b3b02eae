//! How often policies would have done what a cluster did.

use std::collections::BTreeSet;

use sandtable_core::display::Unit;
use sandtable_core::frame::{Column, Frame, Value};
use serde_json::json;

use super::intervals::{Decided, Judged};

/// A policy over all intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) policy: String,
    /// Intervals in which it was asked and did nothing wrong.
    pub(super) intervals: usize,
    /// Of these, the ones in which it would have started what was started.
    pub(super) alike: usize,
    /// Intervals in which it or the cluster started something, and of these the ones alike.
    pub(super) with_starts: (usize, usize),
    /// Starts in both, and in either.
    pub(super) both: usize,
    pub(super) either: usize,
    /// Starts in both on the same nodes, and in both where nodes are known.
    pub(super) same_nodes: (usize, usize),
    /// Starts by it alone, and of these the ones that the cluster made in the next interval.
    pub(super) would_have_started: usize,
    pub(super) sooner: usize,
    pub(super) would_have_waited: usize,
    pub(super) would_have_preempted: usize,
    /// Starts of jobs that the model has not.
    pub(super) not_modelled: usize,
    pub(super) faults: usize,
    /// Starts of the last interval by it alone.
    pub(super) last_alone: BTreeSet<String>,
    /// When that ended.
    pub(super) last_to: String,
}

impl Sum {
    pub(super) fn add(&mut self, interval: &Judged, of: &Decided) {
        self.policy.clone_from(&of.policy);
        if self.last_to != interval.from {
            self.last_alone.clear();
        }
        self.last_to.clone_from(&interval.to);
        self.not_modelled += of.not_modelled;
        self.sooner += self.last_alone.intersection(&of.real).count();
        self.last_alone = of.would.difference(&of.real).cloned().collect();
        if of.fault.is_some() {
            self.faults += 1;
            return;
        }
        let both = of.real.intersection(&of.would).count();
        let alike = of.real == of.would;
        self.intervals += 1;
        self.alike += usize::from(alike);
        if !(of.real.is_empty() && of.would.is_empty()) {
            self.with_starts.0 += 1;
            self.with_starts.1 += usize::from(alike);
        }
        self.both += both;
        self.either += of.real.union(&of.would).count();
        self.same_nodes = (self.same_nodes.0 + of.same_nodes.0, self.same_nodes.1 + of.same_nodes.1);
        self.would_have_started += self.last_alone.len();
        self.would_have_waited += of.real.len() - both;
        self.would_have_preempted += of.preempted;
    }

    /// Starts in both over starts in either.
    pub(super) fn same_starts(&self) -> Option<f64> {
        (self.either > 0).then(|| self.both as f64 / self.either as f64)
    }
}

/// Each policy over all intervals.
pub(super) fn sums(judged: &[Judged]) -> Vec<Sum> {
    let mut all: Vec<Sum> = Vec::new();
    for of in judged {
        all.resize_with(all.len().max(of.decided.len()), Sum::default);
        all.iter_mut().zip(&of.decided).for_each(|(sum, decided)| sum.add(of, decided));
    }
    all
}

/// A row a policy.
pub(super) fn table(all: &[Sum]) -> Frame {
    let mut frame = Frame::new([
        Column::words("policy"),
        Column::of("intervals", Unit::Count),
        Column::of("alike", Unit::Share),
        Column::of("with_starts", Unit::Count).head("with starts"),
        Column::of("alike_with_starts", Unit::Share).head("of these alike"),
        Column::of("same_starts", Unit::Share).head("same starts"),
        Column::of("same_nodes", Unit::Share).head("same nodes"),
        Column::of("would_have_started", Unit::Count).head("started by it alone"),
        Column::of("sooner", Unit::Count).head("which came next"),
        Column::of("would_have_waited", Unit::Count).head("by the cluster alone"),
        Column::of("would_have_preempted", Unit::Count).head("preempted by it"),
        Column::of("not_modelled", Unit::Count).head("not modelled"),
        Column::of("faults", Unit::Count),
    ]);
    let share = |(part, of): (usize, usize)| {
        if of == 0 { Value::Unknown } else { Value::Number(part as f64 / of as f64) }
    };
    for sum in all {
        frame.push([
            sum.policy.clone().into(),
            (sum.intervals as u64).into(),
            share((sum.alike, sum.intervals)),
            (sum.with_starts.0 as u64).into(),
            share((sum.with_starts.1, sum.with_starts.0)),
            share((sum.both, sum.either)),
            share(sum.same_nodes),
            (sum.would_have_started as u64).into(),
            (sum.sooner as u64).into(),
            (sum.would_have_waited as u64).into(),
            (sum.would_have_preempted as u64).into(),
            (sum.not_modelled as u64).into(),
            (sum.faults as u64).into(),
        ]);
    }
    frame
}

/// A row an interval and policy.
pub(super) fn rows(judged: &[Judged]) -> Frame {
    let mut frame = Frame::new([
        Column::words("from"),
        Column::words("to"),
        Column::words("policy"),
        Column::count("real_starts"),
        Column::count("policy_starts"),
        Column::count("both"),
        Column::count("same_nodes"),
        Column::count("preempted"),
        Column::count("not_modelled"),
        Column::words("fault"),
        Column::words("real").only_in_json(),
        Column::words("would").only_in_json(),
    ]);
    for interval in judged {
        for of in &interval.decided {
            frame.push([
                interval.from.clone().into(),
                interval.to.clone().into(),
                of.policy.clone().into(),
                (of.real.len() as u64).into(),
                (of.would.len() as u64).into(),
                (of.real.intersection(&of.would).count() as u64).into(),
                (of.same_nodes.0 as u64).into(),
                (of.preempted as u64).into(),
                (of.not_modelled as u64).into(),
                of.fault.clone().map_or(Value::Unknown, Value::from),
                Value::Json(Box::new(json!(of.real))),
                Value::Json(Box::new(json!(of.would))),
            ]);
        }
    }
    frame
}
