//! What the judge allocates grows with a plan and not with its square: a guest pays fuel for a check by its actions alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, SECOND, SimulatedBackend};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Plan, Readiness, RejectCode, Setup, Start,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::schedule::run;
use sandtable_runtime::{DecisionContext, Policy};

/// Counts the bytes that are asked for.
struct Counting;

static BYTES: AtomicU64 = AtomicU64::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every call is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Starts as many jobs as there are GPUs, and tries ten times as many reassignments of jobs that are not elastic.
struct Insistent {
    jobs: u32,
    refused: usize,
    bytes: u64,
}

impl Policy for Insistent {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("insistent", Abilities::all()))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence::EVENTS))
    }

    fn decide(
        &mut self,
        batch: &Batch,
        mut world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        if batch.seq == 1 {
            let start = |job: u32| Start { job, gpus: vec![job], batch: None };
            let starts = (0..self.jobs).map(|job| Action::Start(start(job)));
            let moves = (0..10 * self.jobs).map(|at| Action::Reassign(vec![start(at % self.jobs)]));
            let actions: Vec<Action> = starts.chain(moves).collect();
            let before = BYTES.load(Ordering::Relaxed);
            let refused = world.check(&actions);
            self.bytes = BYTES.load(Ordering::Relaxed) - before;
            assert!(refused.iter().all(|rejection| rejection.code == RejectCode::NotElastic));
            self.refused = refused.len();
        }
        (world, Ok(Plan { base: batch.seq, actions: Vec::new() }))
    }
}

#[test]
fn checking_a_plan_takes_memory_by_its_length() {
    let per_action = |jobs: u32| {
        let fleet = Fleet::new(&[(1, jobs, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
        let all: Arc<[Job]> = (0..jobs).map(|id| Job::new(&id.to_string(), Instant::START, 1, SECOND)).collect();
        let backend = Box::new(SimulatedBackend::new(fleet, all.clone(), &PerformanceModel::none(), 1));
        let mut policy = Insistent { jobs, refused: 0, bytes: 0 };
        run(&mut policy, backend, Inputs::plain(all, Limits::default())).expect("the books balance");
        assert_eq!(policy.refused, 10 * jobs as usize);
        policy.bytes / u64::from(11 * jobs)
    };
    let (few, many) = (per_action(100), per_action(3000));
    // A copy of what was placed so far, for each action, would be thirty times as much.
    assert!(many < 3 * few, "{few} bytes an action for 100 jobs, {many} for 3,000");
}
