//! What a GPU costs a task: lower is better. From the authors' public simulator (github.com/matthewygf/GPUSchedule),
//! with its defects mended.

/// What is predicted of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// GPU utilisation on average, percent.
    pub util_avg: f64,
    /// GPU utilisation at its peak, percent.
    pub util_max: f64,
    /// Device memory, MiB.
    pub memory: f64,
    /// It ran out of memory beside others before, or is predicted to need more than a card has: it must be alone.
    pub alone: bool,
}

/// A GPU as scores see it: sums over its residents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gpu {
    memory: f64,
    tasks: u32,
    used: f64,
    utilisation: f64,
    /// It takes no further job: a resident must be alone, or nothing is known of the residents.
    closed: bool,
}

impl Gpu {
    /// An empty one with so many MiB.
    pub fn empty(memory: f64) -> Gpu {
        Gpu { memory, ..Gpu::default() }
    }

    /// One that is held by a job of which nothing is known.
    pub fn taken(memory: f64) -> Gpu {
        Gpu { closed: true, ..Gpu::empty(memory) }
    }

    /// A task comes.
    pub fn push(&mut self, task: &Task) {
        self.tasks += 1;
        self.used += task.memory;
        self.utilisation += task.util_avg;
        self.closed |= task.alone;
    }
}

/// Which score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As intended: parts of the memory, a V of utilisation, the number of tasks.
    Normalised,
    /// As the public code has it: memory in use counts in MiB, which swamps all else.
    Compat,
    /// Gandiva's, as the same code has it: the newcomer's utilisation does not count.
    Gandiva,
    /// The GPU that is left with the least memory.
    BestFitMemory,
    /// None: the first GPU that takes the task.
    FirstFit,
}

/// The constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Which score.
    pub form: Form,
    /// Weight of memory.
    pub mem_weight: f64,
    /// Cost of each point of utilisation above 100 over that of each point below.
    pub over_penalty: f64,
    /// Most tasks of a GPU.
    pub max_tasks: u32,
    /// MiB that must stay free.
    pub margin: f64,
    /// Most summed utilisation of a GPU that is shared, percent.
    pub theta: Option<f64>,
    /// Whether the number of tasks counts.
    pub count: bool,
    /// Whether two tasks of one job may share a GPU (the public code lets them).
    pub twice: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            form: Form::Normalised,
            mem_weight: 1.3,
            over_penalty: 1.6,
            max_tasks: 3,
            margin: 500.0,
            theta: None,
            count: true,
            twice: true,
        }
    }
}

impl Rules {
    /// Whether a GPU has a place and memory for a task.
    pub fn fits(&self, gpu: &Gpu, task: &Task) -> bool {
        if gpu.closed || task.alone {
            return !gpu.closed && gpu.tasks == 0;
        }
        gpu.tasks < self.max_tasks && gpu.memory - (gpu.used + task.memory) > self.margin
    }

    /// Whether it may be put there: it fits, and does not ask too much of a GPU in use.
    pub fn admits(&self, gpu: &Gpu, task: &Task) -> bool {
        let light = |theta: f64| gpu.tasks == 0 || gpu.utilisation + task.util_avg <= theta;
        self.fits(gpu, task) && self.theta.is_none_or(light)
    }

    /// What it costs.
    pub fn cost(&self, gpu: &Gpu, task: &Task) -> f64 {
        // More than all of the memory, and more than all of the GPU, is not in use.
        let (used, total, utilisation) = (gpu.used.min(gpu.memory), gpu.memory, gpu.utilisation.min(100.0));
        let tasks = if self.count { f64::from(gpu.tasks) } else { 0.0 };
        let v = || {
            let over = utilisation + task.util_max - 100.0;
            if over > 0.0 { self.over_penalty * over } else { -over }
        };
        match self.form {
            Form::Normalised => self.mem_weight * ((used + task.memory) / total) + v() / 100.0 + tasks,
            Form::Compat => self.mem_weight * (used + task.memory / total) + v() / 100.0 + tasks,
            Form::Gandiva => self.mem_weight * ((used + task.memory) / total) + utilisation / 100.0 + tasks,
            Form::BestFitMemory => total - used - task.memory,
            Form::FirstFit => 0.0,
        }
    }
}
