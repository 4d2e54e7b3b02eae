//! Fleets that are not modelled: the devices of this machine, and recorded runs of such.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;
use sandtable_hardware::live::{Level, Task};
use sandtable_hardware::{Device, Fleet, Job, Micros, PerformanceModel, SECOND, Sharing, StandIn, Telemetry, work};
use serde_json::{Value, json};

use crate::recording::{LiveFleetShape, Recording, jobs_digest};
use crate::spec::{DevicesSpec, FleetSpec, Group, Source, Spec};

/// What drives a cell.
#[derive(Clone)]
pub enum CellBackend {
    /// The model.
    Model,
    /// A recorded run.
    Replay(Arc<Recording>),
    /// This machine.
    Live(Arc<LiveDevices>),
}

/// Devices of this machine, and how jobs run there.
#[derive(Clone, Debug)]
pub struct LiveDevices {
    /// The devices.
    pub devices: Vec<Device>,
    /// Their shape as a fleet.
    pub ground: LiveFleetShape,
    /// Commands of workloads.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Names of this process' environment that jobs are given beside those that every job is.
    pub passed: Vec<String>,
    /// Bytes that a file which a job writes may have.
    pub file_bytes: u64,
    /// How a preempted job is put aside, where the spec says.
    pub preempt: Option<Vec<Level>>,
    /// After this long a silent command is taken to run.
    pub quiet: Micros,
    /// How long a job may take to save.
    pub patience: Micros,
    /// How long the whole run may take.
    pub limit: Micros,
    /// How long a decision may take.
    pub decide: Micros,
    stand_in: bool,
    shared: bool,
    assumed: bool,
    /// What the spec asks for, whatever there is.
    asked: String,
}

/// MiB that each process' context takes beside what it allocates (assumed by us).
const CONTEXT: u32 = 512;

impl LiveDevices {
    /// Whoever reads these devices.
    ///
    /// # Errors
    /// Devices that are there no longer.
    pub fn telemetry(&self) -> Result<Box<dyn Telemetry>, Error> {
        if self.stand_in {
            let memory = self.devices.first().map_or(0, |device| device.memory_mib);
            return Ok(Box::new(StandIn::new(self.devices.len() as u32, memory)));
        }
        let uuids: Vec<&str> = self.devices.iter().map(|device| device.uuid.as_str()).collect();
        crate::gpus::open(None, Some(&uuids))
    }

    /// How many GPUs it takes; none where cores of the CPU stand in for them.
    pub fn gpus(&self) -> u32 {
        if self.stand_in { 0 } else { self.devices.len() as u32 }
    }

    /// What the spec asks for: the same on every machine.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// Whether the devices are of another machine, and nothing is known of them but how many.
    pub fn assumed(&self) -> bool {
        self.assumed
    }

    /// Whether a run may begin although others compute on the devices.
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// What each job runs.
    ///
    /// # Errors
    /// A job that nobody knows how to run.
    pub fn tasks(&self, jobs: &[Job], laws: &PerformanceModel) -> Result<Vec<Task>, Error> {
        jobs.iter().map(|job| self.task(job, laws)).collect()
    }

    fn task(&self, job: &Job, laws: &PerformanceModel) -> Result<Task, Error> {
        let profile = laws.profile();
        let workload = job.workload.and_then(|id| profile.map(|profile| &profile.workloads[id as usize].name));
        let step = workload.and_then(|name| laws.tables().first()?.solo.get(name)?.step_s);
        let seconds = job.work as f64 / SECOND as f64;
        let steps = step.map_or(0, |step| (seconds / step).ceil().max(1.0) as u64);
        let name = workload.map_or("*", String::as_str);
        if let Some(command) = self.commands.get(name).or_else(|| self.commands.get("*")) {
            if steps == 0 && command.iter().any(|word| word.contains("{steps}")) {
                let message = format!("job {:?}: its command wants {{steps}}, the profile has no `step_s`", job.name);
                return Err(Error::usage(format!("{message} of {name:?} on {:?}", self.ground.kind)));
            }
            let fill = |word: &String| {
                let word = word.replace("{steps}", &steps.to_string()).replace("{seconds}", &seconds.to_string());
                word.replace("{gpus}", &job.gpus.to_string()).replace("{job}", &job.name)
            };
            let levels = self.preempt.clone().unwrap_or_else(|| vec![Level::Suspend, Level::Pause]);
            return Ok(Task { argv: command.iter().map(fill).collect(), steps, levels });
        }
        if work::find(name).is_none() {
            let known: Vec<&str> = work::FAMILIES.iter().map(|family| family.name).collect();
            let error =
                Error::usage(format!("job {:?} is of the workload {name:?}, for which there is no command", job.name));
            return Err(error.hint(format!("give one in `commands`, or take a built-in: {}", known.join(", "))));
        }
        if steps == 0 {
            let error =
                Error::usage(format!("how long a step of {name:?} takes on {:?} is not known", self.ground.kind));
            return Err(
                error.hint("measure it: `sandtable hardware profile -o mine.ron`, then `profile: File(\"mine.ron\")`")
            );
        }
        let program = input::program()?;
        let words = [&program.display().to_string(), "hw-job", name, "--steps", &steps.to_string()];
        let levels = self.preempt.clone().unwrap_or_else(|| vec![Level::Save]);
        Ok(Task { argv: words.map(str::to_string).to_vec(), steps, levels })
    }
}

/// The machines of a spec.
pub(super) fn machines(
    source: &Source,
    spec: &Spec,
    folder: &Path,
    assumed: Option<String>,
) -> Result<CellBackend, Error> {
    match &spec.fleet {
        FleetSpec::Model { .. } => Ok(CellBackend::Model),
        FleetSpec::Replay(file) => {
            let recording =
                crate::recording::read(&folder.join(file)).map_err(|error| source.locate(error, "fleet"))?;
            Ok(CellBackend::Replay(Arc::new(recording)))
        }
        FleetSpec::Nvidia { .. } => Ok(CellBackend::Live(Arc::new(field(source, spec, assumed)?))),
    }
}

/// The devices that a spec asks for.
fn found(source: &Source, devices: &DevicesSpec) -> Result<Vec<Device>, Error> {
    let wrong = |message: &str| Err(source.error("fleet.devices", message, "here"));
    match devices {
        DevicesSpec::StandIn(count) if (1..=64).contains(count) => Ok(StandIn::new(*count, 4096).devices().to_vec()),
        DevicesSpec::StandIn(count) => wrong(&format!("expected 1 to 64 stand-ins, found {count}")),
        DevicesSpec::All => crate::gpus::visible(),
        DevicesSpec::Count(0) => wrong("expected at least one device, found none"),
        DevicesSpec::Count(count) => {
            let mut all = crate::gpus::visible()?;
            if all.len() < *count as usize {
                let message = format!("{count} GPUs are asked for, {} may be used here", all.len());
                return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
            }
            all.truncate(*count as usize);
            Ok(all)
        }
        DevicesSpec::Only(uuids) => {
            let uuids: Vec<&str> = uuids.iter().map(String::as_str).collect();
            let opened = crate::gpus::open(None, Some(&uuids)).map_err(|error| match error.exit {
                ExitCode::Usage => source.locate(error, "fleet.devices"),
                _ => error,
            })?;
            let visible = crate::gpus::visible()?;
            let hidden = |device: &&Device| visible.iter().all(|other| other.uuid != device.uuid);
            if let Some(device) = opened.devices().iter().find(hidden) {
                let message = format!("{} is not among the devices of CUDA_VISIBLE_DEVICES", device.uuid);
                return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
            }
            Ok(opened.devices().to_vec())
        }
    }
}

/// As many devices as a spec asks for, of a kind that stands for any.
fn assume(source: &Source, devices: &DevicesSpec, kind: String) -> Result<Vec<Device>, Error> {
    let count = match devices {
        DevicesSpec::Count(count) => *count as usize,
        DevicesSpec::Only(uuids) => uuids.len(),
        DevicesSpec::All | DevicesSpec::StandIn(_) => {
            let error =
                source.error("fleet", "how many GPUs it takes can't be told on this machine, which has none", "here");
            return Err(error.hint("say how many: `devices: Count(1)`"));
        }
    };
    let device = Device { uuid: "assumed".into(), name: kind.clone(), kind, memory_mib: 1 << 20, reserved_mib: 0 };
    Ok(vec![device; count])
}

/// Whether a job's name is pasted into a word that an interpreter runs: one behind `-c`, `-lc`, `-e` and the like.
fn names_in_script(command: &[String]) -> bool {
    let runs = |word: &str| word.starts_with('-') && (word.ends_with(['c', 'e']) || word.ends_with("eval"));
    command.windows(2).any(|pair| runs(&pair[0]) && pair[1].contains("{job}"))
}

fn field(source: &Source, spec: &Spec, kind: Option<String>) -> Result<LiveDevices, Error> {
    let FleetSpec::Nvidia {
        devices,
        slots,
        sharing,
        commands,
        environment,
        file_size,
        preempt,
        quiet,
        patience,
        limit,
        decide,
        shared,
    } = &spec.fleet
    else {
        unreachable!("only real devices have a field")
    };
    let wrong = |place: &str, message: &str| Err(source.error(&format!("fleet.{place}"), message, "here"));
    if spec.semantics.preset.is_some() || spec.serving.is_some() {
        let place = if spec.serving.is_some() { "serving" } else { "semantics.preset" };
        return Err(source.error(
            place,
            "this is of modelled fleets: on real devices things take what they take",
            "here",
        ));
    }
    let slots = slots.unwrap_or(1);
    if !(1..=64).contains(&slots) {
        return wrong("slots", &format!("expected 1 to 64 slots of a device, found {slots}"));
    }
    if let Some((name, _)) = commands.iter().find(|(_, command)| command.is_empty()) {
        return wrong("commands", &format!("the command of {name:?} is empty"));
    }
    if let Some((name, _)) = commands.iter().find(|(_, command)| command[0].contains("{job}")) {
        return wrong("commands", &format!("the program of {name:?} is {{job}}: a job's name may be anybody's"));
    }
    if let Some((name, _)) = commands.iter().find(|(_, command)| names_in_script(command)) {
        let message =
            format!("the command of {name:?} has {{job}} in a script: a job's name may be anybody's, and would be run");
        let error = source.error("fleet.commands", &message, "here");
        return Err(error.hint("write \"$SANDTABLE_JOB\" in the script, which is the same name"));
    }
    let stand_in = matches!(devices, DevicesSpec::StandIn(_));
    let (found, assumed) = match (found(source, devices), kind) {
        (Err(error), Some(kind)) if error.exit == ExitCode::Hardware => (assume(source, devices, kind)?, true),
        (found, _) => (found?, false),
    };
    let Some(first) = found.first() else { return wrong("devices", "expected at least one device, found none") };
    if let Some(other) = found.iter().find(|device| device.kind != first.kind) {
        let found = format!("found {} and {}", first.kind, other.kind);
        return wrong("devices", &format!("expected devices of one kind, {found}: name those of one with `Only`"));
    }
    // What is left for slots: 92 % of the memory, less what the driver keeps and a context for each slot.
    let usable = (u64::from(first.memory_mib) * 92 / 100) as u32;
    let tenants = match sharing {
        Sharing::Packed(most) => *most,
        _ => slots,
    };
    let contexts = if stand_in { 0 } else { CONTEXT.saturating_mul(tenants) };
    let free = usable.saturating_sub(first.reserved_mib).saturating_sub(contexts);
    let memory_mib = free / slots;
    if memory_mib == 0 {
        return wrong("slots", &format!("{} MiB of a device are too few for {slots} slots", first.memory_mib));
    }
    let count = found.len() as u32;
    // A device of several slots is a node of its own.
    let nodes = if slots == 1 { (1, count) } else { (count, slots) };
    let ground = LiveFleetShape { nodes, kind: first.kind.clone(), memory_mib, slots, sharing: *sharing };
    let span = |span: Option<sandtable_core::units::Span>, standard: Micros| span.map_or(standard, |span| span.0);
    Ok(LiveDevices {
        ground,
        devices: found,
        commands: commands.clone(),
        passed: environment.clone(),
        file_bytes: file_size.map_or(64 << 30, |bytes| bytes.0 as u64),
        preempt: preempt.clone(),
        quiet: span(*quiet, 2 * SECOND),
        patience: span(*patience, 30 * SECOND),
        limit: span(*limit, 480 * SECOND),
        decide: span(*decide, SECOND),
        stand_in,
        shared: *shared,
        assumed,
        asked: json!({"devices": devices, "slots": slots}).to_string(),
    })
}

impl CellBackend {
    /// The shape of what is not modelled.
    pub(super) fn ground(&self) -> Option<&LiveFleetShape> {
        match self {
            CellBackend::Model => None,
            CellBackend::Replay(recording) => Some(&recording.header.ground),
            CellBackend::Live(field) => Some(&field.ground),
        }
    }

    /// The group of equal nodes that it is.
    pub(super) fn group(&self) -> Option<Group> {
        self.ground().map(|ground| Group {
            nodes: ground.nodes.0,
            gpus: ground.nodes.1,
            kind: ground.kind.clone(),
            speed: Some(1.0),
            memory: None,
            pool: sandtable_hardware::Pool::Training,
        })
    }

    /// The fleet.
    pub(super) fn fleet(&self, source: &Source) -> Option<Result<Fleet, Error>> {
        let fleet = self.ground()?.fleet();
        Some(fleet.map_err(|error| source.error("fleet", &error.to_string(), "here")))
    }

    /// Its part of a cell's identity, beside the fleet's own; null for the model.
    pub(super) fn key(&self) -> Value {
        match self {
            CellBackend::Model => Value::Null,
            CellBackend::Replay(recording) => json!({"recording": recording.digest}),
            CellBackend::Live(field) => json!({"live": {
                "commands": field.commands, "environment": field.passed, "file_size": field.file_bytes, "preempt": field.preempt, "quiet": field.quiet,
                "patience": field.patience, "limit": field.limit, "decide": field.decide,
            }}),
        }
    }

    /// Whether a recording is of these jobs.
    ///
    /// # Errors
    /// It is of others.
    pub fn fits(&self, jobs: &[Job]) -> Result<(), Error> {
        match self {
            CellBackend::Replay(recording) if recording.header.jobs != jobs_digest(jobs) => {
                let message = "the recording is of other jobs than the spec's workload under this seed";
                Err(Error::usage(message)
                    .hint("replay it with the `workload`, `profile` and seed that it was recorded with"))
            }
            _ => Ok(()),
        }
    }
}
