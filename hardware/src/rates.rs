//! How fast jobs are on types of GPU, alone: by the throughputs of their workload where those are known, else by the
//! type's speed.

use std::collections::BTreeMap;

use crate::{Fleet, Job, LawError, PerformanceModel, TypeId, WorkloadId};

/// The GPU on which durations hold, for workloads whose throughputs are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DurationsOn {
    /// A GPU as fast as the geometric mean of the fleet's types on which the workload runs.
    #[default]
    Mean,
    /// This type of the fleet.
    Kind(TypeId),
}

impl PerformanceModel {
    /// The same laws, with durations that hold elsewhere than on the mean.
    ///
    /// # Errors
    /// Where one of these workloads does not run there.
    pub fn with_durations_on(mut self, base: DurationsOn, used: &[WorkloadId]) -> Result<PerformanceModel, LawError> {
        if let (DurationsOn::Kind(kind), Some(profile)) = (&base, &self.profile)
            && let Some(of) = self.types.get(kind.index())
        {
            let nowhere = |id: &&WorkloadId| {
                let known = &of.throughput[**id];
                !known.is_empty() && known.values().all(|rate| *rate == 0.0)
            };
            if let Some(id) = used.iter().find(nowhere) {
                let workload = profile.workloads[*id].name.clone();
                return Err(LawError::NoBase { kind: of.kind.clone(), workload });
            }
        }
        self.base = base;
        Ok(self)
    }

    /// Samples a second of a job on a type of GPU, alone; none: unknown.
    ///
    /// Between measured gang sizes it is interpolated; beyond them each GPU is worth what it is worth at the nearest.
    pub fn throughput(&self, gpu_type: TypeId, job: &Job) -> Option<f64> {
        let of = self.types.get(gpu_type.index())?;
        at_size(&of.throughput[job.workload?], job.gpus)
    }

    /// Work that a job does in a second on a type of GPU, alone: what its throughput says, else the type's speed. 0: it
    /// does not run there.
    pub fn speed(&self, fleet: &Fleet, gpu_type: TypeId, job: &Job) -> f64 {
        let Some(here) = self.throughput(gpu_type, job) else {
            let alone = self.turns(job).map_or(1.0, |_| sandtable_stages::measured(1));
            return fleet.types[gpu_type].speed / alone;
        };
        let rates = || TypeId::first(fleet.types.len()).filter_map(|kind| self.throughput(kind, job));
        let base = match self.base {
            DurationsOn::Kind(kind) => self.throughput(kind, job).unwrap_or(here),
            DurationsOn::Mean => {
                let logs: Vec<f64> = rates().filter(|rate| *rate > 0.0).map(libm::log).collect();
                libm::exp(logs.iter().sum::<f64>() / logs.len() as f64)
            }
        };
        if here > 0.0 { here / base } else { 0.0 }
    }
}

/// What a table by gang size says of another size.
fn at_size(known: &BTreeMap<u32, f64>, gpus: u32) -> Option<f64> {
    let below = known.range(..=gpus).next_back();
    let above = known.range(gpus..).next();
    Some(match (below, above) {
        (Some((a, low)), Some((b, high))) if b > a => low + (high - low) * f64::from(gpus - a) / f64::from(b - a),
        (Some((size, rate)), _) | (None, Some((size, rate))) => rate * f64::from(gpus) / f64::from(*size),
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Communication, Costs, Duration, GpuProfile, GpuType, Instant, Interference, Profile, ShareMode, Solo, Workload,
    };

    fn laws(fast: &[(u32, f64)]) -> Result<(PerformanceModel, Fleet), LawError> {
        let gpu = |kind: &str, rates: &[(u32, f64)]| {
            let solo = Solo { throughput: rates.iter().copied().collect(), ..Solo::default() };
            let solo = BTreeMap::from([("w".to_string(), solo)]);
            let (sources, mode) = (BTreeMap::new(), ShareMode::TimeSlice);
            GpuProfile { kind: kind.into(), mode, sources, noise: vec![], solo, pairs: vec![], measured: None }
        };
        let profile = Profile {
            about: String::new(),
            workloads: vec![Workload { name: "w".into(), ..Workload::default() }],
            gpus: vec![gpu("slow", &[(1, 10.0), (4, 25.0)]), gpu("fast", fast)],
        };
        let groups = [(1, 8, GpuType::new("slow", 1.0)), (1, 8, GpuType::new("fast", 3.0))];
        let fleet = Fleet::new(&groups, Costs::default(), None).expect("a fleet");
        let none = Interference::NONE;
        Ok((
            PerformanceModel::new(Arc::new(profile), &fleet, &[WorkloadId::new(0)], none, Communication::default())?,
            fleet,
        ))
    }

    fn job(gpus: u32) -> Job {
        Job::new("j", Instant::START, gpus, Duration::from_micros(1))
            .asking(|request| request.workload = Some(WorkloadId::new(0)))
    }

    #[test]
    fn throughputs_stand_before_speeds_and_hold_on_the_mean() {
        let (laws, fleet) = laws(&[(1, 40.0)]).expect("laws");
        // The geometric mean of 10 and 40 is 20.
        assert!((laws.speed(&fleet, TypeId::new(0), &job(1)) - 0.5).abs() < 1e-12);
        assert!((laws.speed(&fleet, TypeId::new(1), &job(1)) - 2.0).abs() < 1e-12);
        // A job without a workload has the type's speed.
        assert_eq!(
            laws.speed(&fleet, TypeId::new(1), &Job::new("j", Instant::START, 1, Duration::from_micros(1))),
            3.0
        );
    }

    #[test]
    fn between_sizes_a_line_and_beyond_them_each_gpu_as_at_the_nearest() {
        let (laws, _) = laws(&[(2, 40.0)]).expect("laws");
        let of = |kind, gpus| laws.throughput(kind, &job(gpus));
        assert_eq!(
            [of(TypeId::new(0), 1), of(TypeId::new(0), 2), of(TypeId::new(0), 4), of(TypeId::new(0), 8)],
            [10.0, 15.0, 25.0, 50.0].map(Some)
        );
        assert_eq!([of(TypeId::new(1), 1), of(TypeId::new(1), 2), of(TypeId::new(1), 4)], [20.0, 40.0, 80.0].map(Some));
        assert_eq!(laws.throughput(TypeId::new(0), &Job::new("j", Instant::START, 1, Duration::from_micros(1))), None);
    }

    #[test]
    fn durations_may_hold_on_one_type() {
        let (known, fleet) = laws(&[(1, 40.0)]).expect("laws");
        let known = known.with_durations_on(DurationsOn::Kind(TypeId::new(0)), &[WorkloadId::new(0)]).expect("laws");
        assert_eq!(
            (known.speed(&fleet, TypeId::new(0), &job(1)), known.speed(&fleet, TypeId::new(1), &job(1))),
            (1.0, 4.0)
        );
        let (nowhere, _) = laws(&[(1, 0.0)]).expect("laws");
        assert!(matches!(
            nowhere.with_durations_on(DurationsOn::Kind(TypeId::new(1)), &[WorkloadId::new(0)]),
            Err(LawError::NoBase { .. })
        ));
    }

    #[test]
    fn nothing_runs_where_its_rate_is_zero() {
        let (laws, fleet) = laws(&[(1, 0.0)]).expect("laws");
        assert_eq!(laws.speed(&fleet, TypeId::new(1), &job(1)), 0.0);
        // The mean is over the types on which it runs.
        assert!((laws.speed(&fleet, TypeId::new(0), &job(1)) - 1.0).abs() < 1e-12);
        assert_eq!(laws.fitting(&fleet, &job(1)), [TypeId::new(0)]);
    }

    #[test]
    fn a_hole_in_the_table_is_an_error() {
        assert!(matches!(laws(&[]), Err(LawError::NoThroughput { kind, .. }) if kind == "fast"));
    }
}
