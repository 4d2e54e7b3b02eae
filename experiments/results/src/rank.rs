//! How policies rank over many settings: mean ranks, what tells them apart, and what each is off from the best.
//!
//! A setting is a point of a spec's sweep. In each, policies are ranked by the mean of a metric over the seeds; policies whose runs are not all there come last, and by metrics of completed jobs those that left jobs behind. Mean ranks over all settings are compared by
//! Nemenyi's critical difference (Demšar, JMLR 7, 2006).

use std::collections::BTreeMap;

use sandtable_plan::Plan;

use crate::metric::{Better, Metric};
use crate::stats::{Estimate, estimate};
use crate::status::CellStatus;

/// Critical values of the studentised range at 5 %, divided by the root of 2, for 2 policies and more (Demšar 2006, table 5a, and its continuation).
const NEMENYI: [f64; 19] = [
    1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164, 3.219, 3.268, 3.313, 3.354, 3.391, 3.426, 3.458,
    3.489, 3.517, 3.544,
];

/// A point of a spec's sweep.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The spec's name.
    pub spec: String,
    /// The values of the sweep, by path; empty where there is none.
    pub point: Vec<(String, String)>,
    /// By policy, in their order: its runs by seed; none of one that failed or is not there.
    runs: Vec<BTreeMap<u64, Option<f64>>>,
}

impl Setting {
    /// The mean of a policy's runs; none where one is not there.
    pub fn mean(&self, policy: usize) -> Option<f64> {
        let values: Option<Vec<f64>> = self.runs[policy].values().copied().collect();
        values.as_deref().and_then(estimate).map(|of| of.mean)
    }

    /// The policy with the best mean.
    pub fn best(&self, better: Better) -> Option<usize> {
        let known = (0..self.runs.len()).filter_map(|policy| Some((self.mean(policy)?, policy)));
        known.min_by(|a, b| order(a.0, b.0, better).then(a.1.cmp(&b.1))).map(|(_, policy)| policy)
    }

    /// Whether a policy's mean is the best, alone or not.
    pub fn is_best(&self, policy: usize, better: Better) -> bool {
        let best = self.best(better).and_then(|best| self.mean(best));
        best.is_some() && self.mean(policy) == best
    }

    /// What a policy is off from another, relative to that one, over the seeds that both have; none where that one has 0.
    pub fn off(&self, policy: usize, from: usize) -> Option<Estimate> {
        let pair = |(seed, value): (&u64, &Option<f64>)| {
            let base = (*self.runs[from].get(seed)?)?;
            (base != 0.0).then_some((*value)? / base - 1.0)
        };
        estimate(&self.runs[policy].iter().filter_map(pair).collect::<Vec<f64>>())
    }

    /// Ranks by the mean, from 1; those that are equal share theirs, and those without a mean the last.
    fn ranks(&self, better: Better) -> Vec<f64> {
        let means: Vec<Option<f64>> = (0..self.runs.len()).map(|policy| self.mean(policy)).collect();
        let before = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
            (Some(a), Some(b)) => order(*a, *b, better).is_lt(),
            (Some(_), None) => true,
            _ => false,
        };
        let of = |one: &Option<f64>| {
            let ahead = means.iter().filter(|other| before(other, one)).count();
            let same = means.iter().filter(|other| !before(other, one) && !before(one, other)).count();
            ahead as f64 + (same as f64 + 1.0) / 2.0
        };
        means.iter().map(of).collect()
    }
}

fn order(a: f64, b: f64, better: Better) -> std::cmp::Ordering {
    if better == Better::Higher { b.total_cmp(&a) } else { a.total_cmp(&b) }
}

/// A policy that is ranked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contender {
    /// What results call it.
    pub label: String,
    /// blake3 of its component.
    pub component: String,
}

/// Policies that met in the same settings.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// In the order of the first spec.
    pub policies: Vec<Contender>,
    /// Where they met.
    pub settings: Vec<Setting>,
    /// Which values of the metric are better.
    pub better: Better,
}

impl Ranking {
    /// Ranks by a metric. Specs with the same policies, by label and component, are one ranking, others are others.
    pub fn all(specs: &[(String, Plan, Vec<CellStatus>)], metric: &Metric) -> Vec<Ranking> {
        let mut all: Vec<Ranking> = Vec::new();
        for (name, plan, known) in specs {
            let Ranking { policies, settings, better } = Ranking::of(name, plan, known, metric);
            let same = |ranking: &&mut Ranking| {
                let (mut a, mut b) = (ranking.policies.clone(), policies.clone());
                a.sort_unstable();
                b.sort_unstable();
                a == b
            };
            match all.iter_mut().find(same) {
                Some(ranking) => {
                    let place: Vec<usize> = ranking
                        .policies
                        .iter()
                        .filter_map(|one| policies.iter().position(|other| other == one))
                        .collect();
                    let sorted = |setting: Setting| {
                        let runs = place.iter().map(|at| setting.runs[*at].clone()).collect();
                        Setting { runs, ..setting }
                    };
                    ranking.settings.extend(settings.into_iter().map(sorted));
                }
                None => all.push(Ranking { policies, settings, better }),
            }
        }
        all
    }

    /// Ranks the policies of one spec by a metric.
    pub fn of(name: &str, plan: &Plan, known: &[CellStatus], metric: &Metric) -> Ranking {
        let mut policies: Vec<Contender> = Vec::new();
        for cell in &plan.cells {
            if !policies.iter().any(|known| known.label == cell.label) {
                policies.push(Contender { label: cell.label.clone(), component: cell.policy.digest.clone() });
            }
        }
        let settings = settings(name, plan, known, &policies, metric);
        Ranking { policies, settings, better: metric.better }
    }

    /// The mean rank of each policy; 1 is the best.
    pub fn mean_ranks(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.policies.len()];
        for setting in &self.settings {
            sums.iter_mut().zip(setting.ranks(self.better)).for_each(|(sum, rank)| *sum += rank);
        }
        sums.into_iter().map(|sum| sum / self.settings.len() as f64).collect()
    }

    /// In how many settings each policy is first, alone or not.
    pub fn firsts(&self) -> Vec<usize> {
        let first = |policy| self.settings.iter().filter(|setting| setting.is_best(policy, self.better)).count();
        (0..self.policies.len()).map(first).collect()
    }

    /// The least distance between two mean ranks that tells policies apart at 5 %; none for one policy, or more than there is a table for.
    pub fn critical_difference(&self) -> Option<f64> {
        let (policies, settings) = (self.policies.len() as f64, self.settings.len() as f64);
        let value = NEMENYI.get(self.policies.len().checked_sub(2)?)?;
        Some(value * (policies * (policies + 1.0) / (6.0 * settings)).sqrt())
    }
}

/// The points of a spec, each with the runs of the policies.
fn settings(name: &str, plan: &Plan, known: &[CellStatus], policies: &[Contender], metric: &Metric) -> Vec<Setting> {
    let mut all: Vec<Setting> = Vec::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        let at = all.iter().position(|setting| setting.point == cell.variant).unwrap_or_else(|| {
            let point = cell.variant.clone();
            all.push(Setting { spec: name.to_string(), point, runs: vec![BTreeMap::new(); policies.len()] });
            all.len() - 1
        });
        let value = match known {
            // Of completed jobs alone: of a policy that leaves jobs behind it says nothing of those.
            CellStatus::Done(summary) if metric.is_of_completed() && summary.unfinished > 0 => None,
            CellStatus::Done(summary) => Some(metric.of(summary)).filter(|value| value.is_finite()),
            _ => None,
        };
        if let Some(policy) = policies.iter().position(|one| one.label == cell.label) {
            all[at].runs[policy].insert(cell.seed, value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(runs: &[&[Option<f64>]]) -> Setting {
        let of =
            |runs: &&[Option<f64>]| runs.iter().copied().enumerate().map(|(seed, run)| (seed as u64, run)).collect();
        Setting { spec: "s".into(), point: Vec::new(), runs: runs.iter().map(of).collect() }
    }

    fn ranking(settings: Vec<Setting>) -> Ranking {
        let policy = |at| Contender { label: format!("p{at}"), component: String::new() };
        let policies = (0..settings[0].runs.len()).map(policy).collect();
        Ranking { policies, settings, better: Better::Lower }
    }

    #[test]
    fn equal_means_share_a_rank_and_what_is_not_there_is_last() {
        let one =
            setting(&[&[Some(2.0), Some(4.0)], &[Some(3.0), Some(3.0)], &[Some(1.0), None], &[Some(1.0), Some(2.0)]]);
        assert_eq!(one.ranks(Better::Lower), [2.5, 2.5, 4.0, 1.0]);
        assert_eq!(one.ranks(Better::Higher), [1.5, 1.5, 4.0, 3.0]);
        assert_eq!((one.best(Better::Lower), one.best(Better::Higher)), (Some(3), Some(0)));
        let off = one.off(0, 3).expect("two seeds");
        assert_eq!((off.mean, off.runs), (1.0, 2));
        assert_eq!(one.off(2, 3).map(|off| off.runs), Some(1));
        assert!(one.is_best(3, Better::Lower) && !one.is_best(0, Better::Lower));
        assert_eq!(setting(&[&[Some(1.0)], &[Some(0.0)]]).off(0, 1), None);
    }

    #[test]
    fn mean_ranks_of_friedmans_example_are_told_apart_as_published() {
        // Demšar 2006, section 3.2.2: four classifiers on 14 data sets; CD at 5 % is 1.25.
        let settings = vec![setting(&[&[Some(1.0)], &[Some(2.0)], &[Some(3.0)], &[Some(4.0)]]); 14];
        let all = ranking(settings);
        assert!((all.critical_difference().expect("in the table") - 1.25).abs() < 0.01);
        assert_eq!(all.mean_ranks(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all.firsts(), [14, 0, 0, 0]);
    }
}
