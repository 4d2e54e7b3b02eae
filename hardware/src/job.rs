//! What a job asks for and what it really takes.

use crate::{Micros, TypeId};

/// One job of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in the trace.
    pub name: String,
    /// When it is submitted.
    pub submit: Micros,
    /// Size of its gang.
    pub gpus: u32,
    /// Its work: run time on GPUs of speed 1.
    pub work: Micros,
    /// What its user said that it would take.
    pub declared: Option<Micros>,
    /// The types that it may run on; empty: any.
    pub gpu_types: Vec<TypeId>,
    /// Whether it may be preempted.
    pub preemptible: bool,
}
