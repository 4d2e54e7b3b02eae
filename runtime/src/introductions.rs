//! What a batch brings for the first time.

use crate::contract::{AttainedTime, Demand, Fresh, Sample, WorkloadProfile};

/// What jobs refer to by number and a batch introduces, in the order of the numbers; and what elastic jobs report.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Introductions {
    /// Demands that no earlier job had.
    pub classes: Vec<Demand>,
    /// Workloads that no earlier job had.
    pub workloads: Vec<WorkloadProfile>,
    /// Names of users that no earlier job belongs to.
    pub users: Vec<String>,
    /// Measurements of elastic jobs, by job.
    pub samples: Vec<Sample>,
    /// What live jobs have had, by job, for a policy that takes over.
    pub attained: Vec<AttainedTime>,
}

impl Introductions {
    /// Which of the lists have entries.
    pub(crate) fn fresh(&self) -> Fresh {
        let lists = [
            (self.classes.is_empty(), Fresh::CLASSES),
            (self.workloads.is_empty(), Fresh::WORKLOADS),
            (self.users.is_empty(), Fresh::USERS),
            (self.samples.is_empty(), Fresh::SAMPLES),
            (self.attained.is_empty(), Fresh::ATTAINED),
        ];
        lists.iter().filter(|(is_empty, _)| !is_empty).fold(Fresh::empty(), |all, (_, fresh)| all | *fresh)
    }
}
