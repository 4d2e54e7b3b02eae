//! Every stay of a job on GPUs, packed: a run has more of them than jobs, and nothing reads them before its end.

use sandtable_hardware::{GpuId, Instant, JobId};
use serde::{Deserialize, Serialize};

use crate::row::Segment;

/// A list of GPUs as runs of adjacent ones, in its order.
#[derive(Serialize, Deserialize)]
pub(super) struct GpuRuns(Vec<(i64, u32)>);

impl GpuRuns {
    /// Each run is how far its first is from what would have gone on with the run before, and how many follow the first.
    pub(super) fn of(gpus: &[GpuId]) -> GpuRuns {
        let (mut runs, mut next) = (Vec::<(i64, u32)>::new(), 0);
        for gpu in gpus {
            let number = i64::from(gpu.number());
            match runs.last_mut() {
                Some((_, more)) if number == next => *more += 1,
                _ => runs.push((number - next, 0)),
            }
            next = number + 1;
        }
        GpuRuns(runs)
    }

    pub(super) fn list(&self) -> Vec<GpuId> {
        let (mut gpus, mut next) = (Vec::new(), 0);
        for (apart, more) in &self.0 {
            let first = next + apart;
            next = first + i64::from(*more) + 1;
            gpus.extend((first..next).map(|number| GpuId::new(number as u32)));
        }
        gpus
    }
}

/// The stays of a run, in the order of their ends.
#[derive(Default)]
pub(super) struct Stays {
    packed: Vec<u8>,
    /// That before the next: each is packed relative to it.
    last: (JobId, Instant),
}

/// A stay: its job relative to that before, its end relative to the end before, its length.
#[derive(Serialize, Deserialize)]
struct Packed(i64, i64, u64, GpuRuns);

impl Stays {
    pub(super) fn push(&mut self, job: JobId, from: Instant, to: Instant, gpus: &[GpuId]) {
        let (last_job, last_end) = self.last;
        let packed = Packed(
            i64::from(job.number()) - i64::from(last_job.number()),
            (to.as_micros() as i64).wrapping_sub(last_end.as_micros() as i64),
            (to - from).as_micros(),
            GpuRuns::of(gpus),
        );
        let packed = postcard::to_extend(&packed, std::mem::take(&mut self.packed));
        self.packed = packed.expect("a stay has nothing that can't be packed");
        self.last = (job, to);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Segment> {
        let mut rest = self.packed.as_slice();
        let (mut job, mut to) = (0, Instant::START);
        std::iter::from_fn(move || {
            let (Packed(job_by, end_by, length, gpus), after) =
                (!rest.is_empty()).then(|| postcard::take_from_bytes(rest).expect("what was packed"))?;
            rest = after;
            job += job_by;
            to = Instant::from_micros(to.as_micros().wrapping_add_signed(end_by));
            let from = Instant::from_micros(to.as_micros() - length);
            Some(Segment { job: JobId::new(job as u32), from, to, gpus: gpus.list() })
        })
    }
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::SECOND;

    use super::*;

    #[test]
    fn stays_are_unpacked_as_they_were() {
        let second = |at: u64| Instant::at(at * SECOND);
        let stay = |job, from, to, gpus: &[u32]| Segment {
            job: JobId::new(job),
            from: second(from),
            to: second(to),
            gpus: GpuId::list(gpus.to_vec()),
        };
        let known = [
            stay(7, 3, 3, &[0]),
            stay(4_000_000_000, 1, 9, &[5, 6, 7, 100, 99, 98, 98]),
            stay(0, 9, 9_000_000_000, &[]),
            stay(1, 2, 8_999_999_999, &[4_294_967_295, 0]),
        ];
        let mut stays = Stays::default();
        known.iter().for_each(|stay| stays.push(stay.job, stay.from, stay.to, &stay.gpus));
        assert_eq!(stays.iter().collect::<Vec<_>>(), known);
        assert_eq!(GpuRuns::of(&known[1].gpus).0, [(5, 2), (92, 0), (-2, 0), (-2, 0), (-1, 0)]);
    }
}
