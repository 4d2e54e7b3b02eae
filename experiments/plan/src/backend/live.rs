//! The devices of this machine: what they are, how jobs run there, and what a spec may say of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_core::units;
use sandtable_hardware::live::{Level, Task};
use sandtable_hardware::{Backend, Device, Duration, Job, PerformanceModel, SECOND, Sharing, StandIn, Telemetry, work};
use sandtable_runtime::inputs::Inputs;
use serde_json::{Value, json};

use super::{CellBackend, devices};
use crate::Cell;
use crate::recording::LiveFleetShape;
use crate::spec::{DevicesSpec, FleetSpec, Source, Spec};

/// Devices of this machine, and how jobs run there.
#[derive(Clone, Debug)]
pub struct LiveDevices {
    /// The devices.
    pub devices: Vec<Device>,
    /// Their shape as a fleet.
    pub shape: LiveFleetShape,
    /// Commands of workloads.
    pub commands: BTreeMap<String, Vec<String>>,
    /// Names of this process' environment that jobs are given beside those that every job is.
    pub passed: Vec<String>,
    /// Bytes that a file which a job writes may have.
    pub file_bytes: u64,
    /// How a preempted job is put aside, where the spec says.
    pub preempt: Option<Vec<Level>>,
    /// After this long a silent command is taken to run.
    pub quiet: Duration,
    /// How long a job may take to save.
    pub patience: Duration,
    /// How long the whole run may take.
    pub limit: Duration,
    /// How long a decision may take.
    pub decide: Duration,
    stand_in: bool,
    shared: bool,
    assumed: bool,
    /// What the spec asks for, whatever there is.
    asked: String,
}

/// MiB that the context of each process takes beside what it allocates (assumed by us).
const CONTEXT_MIB: u32 = 512;

impl CellBackend for LiveDevices {
    fn about(&self) -> &'static str {
        "real devices"
    }

    fn semantics(&self) -> Option<String> {
        Some(format!("observed on {}", self.devices[0].name))
    }

    fn shape(&self) -> Option<&LiveFleetShape> {
        Some(&self.shape)
    }

    fn identity(&self) -> Value {
        json!({"live": {
            "commands": self.commands, "environment": self.passed, "file_size": self.file_bytes, "preempt": self.preempt,
            "quiet": self.quiet, "patience": self.patience, "limit": self.limit, "decide": self.decide,
        }})
    }

    fn is_reproducible(&self) -> bool {
        false
    }

    fn gpus_needed(&self) -> u32 {
        if self.stand_in { 0 } else { self.devices.len() as u32 }
    }

    fn live(&self) -> Option<&LiveDevices> {
        Some(self)
    }

    fn start(&self, _: &Cell, _: Arc<[Job]>, _: &mut Inputs) -> Result<Box<dyn Backend>, Error> {
        Err(Error::internal("a cell on real devices is observed, not executed"))
    }
}

impl LiveDevices {
    /// Opens what reads these devices.
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

    /// Returns what the spec asks for, as text: the same on every machine.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// Whether the devices are of another machine: nothing is known of them but their number.
    pub fn assumed(&self) -> bool {
        self.assumed
    }

    /// Whether a run may begin although others compute on the devices.
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// Returns what each job runs.
    ///
    /// # Errors
    /// A job for which there is no command.
    pub fn tasks(&self, jobs: &[Job], laws: &PerformanceModel) -> Result<Vec<Task>, Error> {
        jobs.iter().map(|job| self.task(job, laws)).collect()
    }

    fn task(&self, job: &Job, laws: &PerformanceModel) -> Result<Task, Error> {
        if job.gpus == 0 {
            let error = Error::usage(format!("job {:?} asks for no GPU", job.name));
            return Err(error.hint("such jobs run on modelled fleets"));
        }
        let profile = laws.profile();
        let workload = job.workload.and_then(|id| profile.map(|profile| &profile.workloads[id].name));
        let step = workload.and_then(|name| laws.tables().first()?.solo.get(name)?.step_s);
        let seconds = job.work.as_secs_f64();
        let steps = step.map_or(0, |step| (seconds / step).ceil().max(1.0) as u64);
        let name = workload.map_or("*", String::as_str);
        if let Some(command) = self.commands.get(name).or_else(|| self.commands.get("*")) {
            if steps == 0 && command.iter().any(|word| word.contains("{steps}")) {
                let message = format!("job {:?}: its command wants {{steps}}, the profile has no `step_s`", job.name);
                return Err(Error::usage(format!("{message} of {name:?} on {:?}", self.shape.kind)));
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
                Error::usage(format!("how long a step of {name:?} takes on {:?} is not known", self.shape.kind));
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

/// Whether a job's name is pasted into a word that an interpreter runs: one behind `-c`, `-lc`, `-e` and the like.
fn names_in_script(command: &[String]) -> bool {
    let runs = |word: &str| word.starts_with('-') && (word.ends_with(['c', 'e']) || word.ends_with("eval"));
    command.windows(2).any(|pair| runs(&pair[0]) && pair[1].contains("{job}"))
}

/// Checks what a spec says of the commands of its jobs.
fn check_commands(source: &Source, commands: &BTreeMap<String, Vec<String>>) -> Result<(), Error> {
    let wrong = |message: &str| source.error("fleet.commands", message, "here");
    if let Some((name, _)) = commands.iter().find(|(_, command)| command.is_empty()) {
        return Err(wrong(&format!("the command of {name:?} is empty")));
    }
    if let Some((name, _)) = commands.iter().find(|(_, command)| command[0].contains("{job}")) {
        return Err(wrong(&format!("the program of {name:?} is {{job}}: the name of a job would choose the program")));
    }
    if let Some((name, _)) = commands.iter().find(|(_, command)| names_in_script(command)) {
        let message =
            format!("the command of {name:?} has {{job}} in a script: the name of a job would be run as part of it");
        return Err(wrong(&message).hint("write \"$SANDTABLE_JOB\" in the script, which is the same name"));
    }
    Ok(())
}

/// Returns the memory of a slot in MiB: 92 % of the device, less what the driver keeps and a context for each slot.
fn slot_memory(device: &Device, slots: u32, sharing: Sharing, stand_in: bool) -> u32 {
    let usable = (u64::from(device.memory_mib) * 92 / 100) as u32;
    let tenants = match sharing {
        Sharing::Packed(most) => most,
        _ => slots,
    };
    let contexts = if stand_in { 0 } else { CONTEXT_MIB.saturating_mul(tenants) };
    usable.saturating_sub(device.reserved_mib).saturating_sub(contexts) / slots
}

/// Resolves the devices that a spec asks for, and how its jobs run there; where there are no GPUs, `kind` stands for theirs.
pub(super) fn resolve(source: &Source, spec: &Spec, kind: Option<String>) -> Result<LiveDevices, Error> {
    let FleetSpec::Nvidia {
        devices: wanted,
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
        return Err(Error::internal("only a fleet `Nvidia` has devices"));
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
    check_commands(source, commands)?;
    if *sharing == Sharing::Parts {
        return wrong("sharing", "real GPUs are not cut into parts: expected Exclusive, Shares or Packed(2)");
    }
    let stand_in = matches!(wanted, DevicesSpec::StandIn(_));
    let (devices, assumed) = devices::resolve(source, wanted, kind)?;
    let Some(first) = devices.first() else { return wrong("devices", "expected at least one device, found none") };
    if let Some(other) = devices.iter().find(|device| device.kind != first.kind) {
        let found = format!("found {} and {}", first.kind, other.kind);
        return wrong("devices", &format!("expected devices of one kind, {found}: name those of one with `Only`"));
    }
    let memory_mib = slot_memory(first, slots, *sharing, stand_in);
    if memory_mib == 0 {
        return wrong("slots", &format!("{} MiB of a device are too few for {slots} slots", first.memory_mib));
    }
    let count = devices.len() as u32;
    // A device of several slots is a node of its own.
    let nodes = if slots == 1 { (1, count) } else { (count, slots) };
    let shape = LiveFleetShape { nodes, kind: first.kind.clone(), memory_mib, slots, sharing: *sharing };
    let span = |span: Option<units::Span>, standard: Duration| span.map_or(standard, |span| span.0);
    Ok(LiveDevices {
        shape,
        devices,
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
        asked: json!({"devices": wanted, "slots": slots}).to_string(),
    })
}
