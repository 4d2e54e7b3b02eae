//! The adapter between the contract's exports and a [`Policy`], the same natively and in a component.

use crate::bindings::sandtable::policy::types::{Descriptor, Readiness};
use crate::{
    Batch, Cluster, Config, Introductions, JobId, Knowledge, Placement, Plan, Policy, PolicyError, Reason, Setup,
    config,
};

/// A policy with its mirror of the cluster.
pub struct Driver<P> {
    policy: P,
    cluster: Cluster,
    /// Whether jobs prefer the types on which they are fastest.
    fastest: bool,
}

/// The descriptor of a policy.
pub fn describe<P: Policy>(version: &str) -> Descriptor {
    let about = P::about();
    Descriptor {
        name: about.name.into(),
        version: version.into(),
        about: about.about.into(),
        uses: about.uses,
        needs: about.needs,
        config_schema: config::schema(about.params),
    }
}

/// Whether a host tells what a policy, or one of its parameters, needs.
///
/// # Errors
/// `Unsupported` names the first fact that it does not tell, and how an experiment would.
pub fn needed(policy: &str, needs: Knowledge, told: Knowledge) -> Result<(), PolicyError> {
    let facts = [
        (Knowledge::REMAINING, "remaining: bind a predictor to it"),
        (Knowledge::DECLARED_RUN_TIME, "declared-run-time: reveal it"),
        (Knowledge::SOLO_PROFILE, "solo-profile: reveal it"),
        (Knowledge::SIMILARITY, "similarity: bind a predictor to it"),
        (Knowledge::PAIR_SPEED, "pair-speed: bind a predictor to it"),
        (Knowledge::THROUGHPUT, "throughput: bind a predictor to it"),
        (Knowledge::UTILISATION, "utilisation: bind a predictor to it"),
        (Knowledge::MEMORY, "memory: bind a predictor to it"),
        (Knowledge::STEPS, "steps: bind a predictor to it"),
        (Knowledge::EPOCHS, "epochs: bind a predictor to it"),
        (Knowledge::MODEL_FACTS, "model-facts: reveal them"),
        (Knowledge::PROGRESS, "progress: reveal it"),
        (Knowledge::WEIGHTS, "weights: name a file of them, `weights` of the policy"),
        (Knowledge::REFERENCES, "references: name workloads of the profile that the site has measured"),
    ];
    match facts.iter().find(|(fact, _)| needs.contains(*fact) && !told.contains(*fact)) {
        Some((_, name)) => Err(PolicyError::Unsupported(format!("{policy} needs to be told {name}"))),
        None => Ok(()),
    }
}

impl<P: Policy> Driver<P> {
    /// Checks the configuration and makes the policy.
    ///
    /// # Errors
    /// `BadConfig` names the parameter, what was found and what was expected; `Unsupported` names the fact
    /// that the host cannot tell.
    pub fn new(setup: Setup) -> Result<(Self, Readiness), PolicyError> {
        let about = P::about();
        needed(about.name, about.needs, setup.knowledge)?;
        let config = Config::parse(&setup.config, about.params).map_err(PolicyError::BadConfig)?;
        let places = about.params.iter().any(|param| param.name == "placement");
        let fastest = places && config.choice("placement") == Placement::FASTEST;
        if fastest {
            needed("placement \"fastest\"", Knowledge::THROUGHPUT, setup.knowledge)?;
        }
        let policy = P::new(&config, &setup)?;
        let (cadence, uses) = (policy.cadence(), policy.uses());
        let rule = if places { Placement::named(config.choice("placement")) } else { Placement::Count };
        let cluster = Cluster::new(&setup.topology).queued_in(&setup.queues).placed_by(rule);
        Ok((Driver { policy, cluster, fastest }, Readiness { cadence, uses }))
    }

    /// Answers one batch, which introduces this.
    ///
    /// # Errors
    /// Those of the policy.
    pub fn decide(&mut self, batch: &Batch, new: Introductions) -> Result<Plan, PolicyError> {
        self.cluster.take_in(batch, new);
        if self.fastest {
            self.cluster.prefer_fastest(batch);
        }
        self.policy.decide(batch, &mut self.cluster)?;
        Ok(Plan { base: batch.seq, actions: self.cluster.take_actions() })
    }

    /// Why jobs wait, after the latest decision.
    pub fn explain(&self, jobs: &[JobId]) -> Vec<Reason> {
        let of = |id: &JobId| match self.cluster.get(*id) {
            Some(job) if job.waits() => self.policy.explain(job, &self.cluster),
            _ => Reason::Policy("it does not wait, as far as the policy knows".into()),
        };
        jobs.iter().map(of).collect()
    }
}
