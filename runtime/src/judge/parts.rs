//! Parts of GPUs that have been cut.

use sandtable_hardware::{Fleet, GpuId, Job, JobId, TypeId};

use super::{Bench, Refusal};
use crate::cluster::Cluster;
use crate::contract::RejectCode;

fn misplaced(why: String) -> Result<(), Refusal> {
    Err((RejectCode::PartMisplaced, format!("V17: {why}")))
}

/// Slices, the last not included.
fn range(first: u32, end: u32) -> String {
    if end - first == 1 { format!("slice {first}") } else { format!("slices {first} to {}", end - 1) }
}

/// A job that asks for a part is given one that its GPU can be cut into, and no other job is.
pub(super) fn check_part(
    fleet: &Fleet,
    job: JobId,
    asked: &Job,
    gpu_type: TypeId,
    slice: Option<u32>,
) -> Result<(), Refusal> {
    let parts = &fleet.parts;
    match (asked.part, slice) {
        (None, None) => Ok(()),
        (Some(part), None) => {
            misplaced(format!("job {job} asks for the part {} of a GPU: `start-part` starts it", parts.name(part)))
        }
        (None, Some(_)) => misplaced(format!("job {job} is given a part of a GPU, it asks for none")),
        (Some(part), Some(_)) if !parts.has(gpu_type, part) => {
            misplaced(format!("no {} has the part {}", fleet.types[gpu_type].name, parts.name(part)))
        }
        (Some(part), Some(slice)) if parts.starts(part).contains(&slice) => Ok(()),
        (Some(part), Some(slice)) => {
            let (name, starts) = (parts.name(part), parts.starts(part));
            misplaced(format!("job {job} is given the part {name} from slice {slice}, it begins at one of {starts:?}"))
        }
    }
}

/// No other job has a slice of the part, or the GPU.
pub(super) fn check_free(
    bench: &Bench<'_>,
    cluster: &Cluster,
    job: JobId,
    gpu: GpuId,
    slice: Option<u32>,
) -> Result<(), Refusal> {
    let parts = &bench.fleet.parts;
    let own = bench.jobs[job].part.zip(slice);
    for other in &cluster.residents[gpu] {
        let theirs = bench.jobs[*other].part.zip(cluster.slices.get(other).copied());
        let (Some((own, from)), Some((part, first))) = (own, theirs) else {
            return Err((RejectCode::GpuOverCommitted, format!("V14: GPU {gpu} is held by job {other}")));
        };
        let (to, last) = (from + parts.slices(own), first + parts.slices(part));
        if from < last && first < to {
            let (given, held) = (range(from, to), range(first, last));
            return misplaced(format!("job {job} is given {given} of GPU {gpu}, job {other} has {held}"));
        }
    }
    Ok(())
}
