//! Steps as stages, after Muri (Zhao et al., SIGCOMM 2022): a job uses CPUs, then GPUs, then the network, and jobs on the same GPUs take turns at these. Where storage
//! and CPUs are one of three resources, two jobs may use it at once, one of them the former and the other the latter.

/// Measured time over [`period`]'s, of so many jobs on the same GPUs: 1.015 of one alone, 1.33, 1.5 and 1.37 of two to four over that, as Muri's
/// simulator has them (`jobs.py`, commit 7264b1a).
const MEASURED: [f64; 4] = [1.015, 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015];

/// A step of a job.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Seconds that it takes alone.
    pub seconds: f64,
    /// Seconds of it on each resource, in turn: CPUs, GPUs, network; or storage, CPUs, GPUs, network.
    pub uses: &'a [f64],
}

/// A step's time as it is measured over its time as it is computed, of so many jobs on the same GPUs.
pub fn measured(jobs: usize) -> f64 {
    MEASURED[jobs.clamp(1, MEASURED.len()) - 1]
}

/// Seconds in which each of these jobs on the same GPUs does one step, in the best of their orders, as computed: Muri's rule for four resources (section 4 of
/// the paper), its simulator's for three. Of more than four jobs, or of different numbers of resources: one after the other.
///
/// ```
/// use sandtable_stages::{Step, period};
///
/// // One computes while the other reads its data.
/// let (reads, computes) = (Step { seconds: 5.0, uses: &[4.0, 1.0, 0.0] }, Step { seconds: 5.0, uses: &[1.0, 4.0, 0.0] });
/// assert_eq!(period(&[reads, computes]), 5.0);
/// ```
pub fn period(jobs: &[Step<'_>]) -> f64 {
    let resources = jobs.first().map_or(0, |job| job.uses.len());
    if !(2..=4).contains(&jobs.len()) || resources < 3 || jobs.iter().any(|job| job.uses.len() != resources) {
        return jobs.iter().map(|job| job.seconds).sum();
    }
    let of_order = |order: &[&[f64]]| if resources == 3 { pipelined(order) } else { in_slots(order) };
    let mut uses: Vec<&[f64]> = jobs.iter().map(|job| job.uses).collect();
    let mut best = f64::INFINITY;
    if let ([a, b], 3) = (&uses[..], resources) {
        best = a[0].max(b[1] + b[2]) + b[0].max(a[1] + a[2]);
    }
    each_order(&mut uses, 0, &mut |order| best = best.min(of_order(order)));
    best
}

/// Hands on each order of what stands from `first` on.
fn each_order<'a>(of: &mut [&'a [f64]], first: usize, hand_on: &mut impl FnMut(&[&'a [f64]])) {
    if first + 1 >= of.len() {
        return hand_on(of);
    }
    for next in first..of.len() {
        of.swap(first, next);
        each_order(of, first + 1, hand_on);
        of.swap(first, next);
    }
}

/// As many slots as resources; in slot i the job at place k uses resource i - k, and the slot is as long as the longest use in it.
fn in_slots(order: &[&[f64]]) -> f64 {
    let slots = order[0].len();
    let slot = |i: usize| order.iter().enumerate().map(|(k, uses)| uses[(i + slots - k) % slots]).fold(0.0, f64::max);
    (0..slots).map(slot).sum()
}

/// Four slots, over and over: in slot i the job at place i + 3 ends its use of storage and CPUs, which lasts two slots, that at place i + 2 has the GPUs, that at i + 1
/// the network. The time of four slots once it is the same twice, and of the last four of eight otherwise.
fn pipelined(order: &[&[f64]]) -> f64 {
    const SLOTS: usize = 4;
    let mut ends = [0.0f64; 2 * SLOTS + 1];
    for i in 0..2 * SLOTS {
        let at = |ahead: usize| order.get((i + ahead) % SLOTS);
        let network = at(1).map(|uses| ends[i] + uses[2]);
        let gpus = at(2).map(|uses| ends[i] + uses[1]);
        let cpus = at(3).filter(|_| i > 0).map(|uses| ends[i - 1] + uses[0]);
        ends[i + 1] = network.into_iter().chain(gpus).chain(cpus).fold(0.0, f64::max);
        if i >= SLOTS {
            let (last, before) = (ends[i + 1] - ends[i + 1 - SLOTS], ends[i] - ends[i - SLOTS]);
            if (last - before).abs() <= 1e-3 * last.abs().max(before.abs()) {
                return last;
            }
        }
    }
    ends[2 * SLOTS] - ends[SLOTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(jobs: &[&[f64]]) -> f64 {
        let steps: Vec<Step<'_>> = jobs.iter().map(|uses| Step { seconds: uses.iter().sum(), uses }).collect();
        period(&steps)
    }

    #[test]
    fn four_resources_take_turns_as_in_the_paper() {
        let (a, b, c, d) = ([1.0, 2.0, 4.0, 1.0], [3.0, 1.0, 1.0, 3.0], [2.0; 4], [0.0, 0.0, 6.0, 0.0]);
        let times =
            [of(&[&a, &b]), of(&[&a, &c]), of(&[&b, &c]), of(&[&a, &d]), of(&[&a, &b, &c]), of(&[&a, &b, &c, &d])];
        assert_eq!(times, [10.0, 10.0, 10.0, 12.0, 11.0, 14.0]);
    }

    #[test]
    fn three_resources_are_a_pipeline() {
        assert_eq!(of(&[&[1.0, 4.0, 0.0], &[1.0, 4.0, 0.0]]), 8.0);
        // More than take turns go one after the other.
        assert_eq!(of(&[&[4.0, 1.0, 0.0][..]; 5]), 25.0);
        assert_eq!(of(&[&[4.0, 1.0, 0.0]]), 5.0);
        assert_eq!(of(&[]), 0.0);
    }
}
