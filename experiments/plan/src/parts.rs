//! Parts that GPUs are cut into: what a spec says of them, and which of them a job asks for.

use std::collections::BTreeMap;

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{Fleet, FleetError, Job, PartId, PartProfile, Sharing, TypeId, catalogue};
use sandtable_inputs::trace::{Row, WHOLE};
use serde_json::{Value, json};

use crate::spec::{FleetSpec, PartSpec, Source};

/// The fleet, its GPUs cut where the spec says so.
pub(super) fn cut(source: &Source, spec: &FleetSpec, slots: u32, fleet: Fleet) -> Result<Fleet, Error> {
    let FleetSpec::Model { sharing, parts, .. } = spec else { return Ok(fleet) };
    if *sharing != Sharing::Parts {
        let unused = "parts are of GPUs that are cut, these are not";
        let error = || source.error("fleet.parts", unused, "here").hint("sharing: Parts");
        return if parts.is_empty() { Ok(fleet) } else { Err(error()) };
    }
    if slots > 1 {
        return Err(source.error("fleet.sharing", "the preset has its own parts of GPUs: they are not cut", "here"));
    }
    let kinds = || fleet.types.iter().map(|kind| kind.name.as_str());
    if let Some(unknown) = parts.keys().find(|kind| !kinds().any(|known| known == **kind)) {
        let error = source.error("fleet.parts", &format!("the fleet has no GPU of kind {unknown:?}"), "here");
        let hint = format!("it has {}", kinds().collect::<Vec<_>>().join(", "));
        return Err(error.hint(nearest(unknown, kinds()).map_or(hint, |near| format!("did you mean {near:?}?"))));
    }
    let by_catalogue = |kind: &str| catalogue::find(kind).map_or(Vec::new(), |model| model.parts.clone());
    let profiles = |kind: &str| match parts.get(kind) {
        Some(own) => own.iter().map(profile).collect(),
        None => Ok(by_catalogue(kind)),
    };
    let tables = kinds().map(profiles).collect::<Result<Vec<Vec<PartProfile>>, String>>();
    let tables = tables.map_err(|message| source.error("fleet.parts", &message, "here"))?;
    fleet.cut(&tables).map_err(|error| match error {
        FleetError::NoParts { .. } => {
            let hint = "parts: {\"KIND\": {\"NAME\": Part(slices: 1, starts: [0, 1])}}";
            source.error("fleet.sharing", &error.to_string(), "here").hint(hint)
        }
        _ => source.error("fleet.parts", &error.to_string(), "here"),
    })
}

/// A part of one's own.
///
/// # Errors
/// A name that stands for something else or can't be written in a trace, or less than a MiB of memory.
fn profile((name, part): (&String, &PartSpec)) -> Result<PartProfile, String> {
    if name == WHOLE {
        return Err(format!("a part can't be called {WHOLE:?}: so is a GPU that is not cut"));
    }
    if name.is_empty() || name.contains(char::is_control) {
        return Err(format!("expected the name of a part, without control characters, found {name:?}"));
    }
    let memory_mib = crate::nodes::host(None, part.memory)?.memory_mib;
    Ok(PartProfile { name: name.clone(), slices: part.slices, memory_mib, starts: part.starts.clone() })
}

/// What parts add to the identity of a fleet.
pub(super) fn fleet_key(fleet: &Fleet, key: &mut Value) {
    if fleet.sharing == Sharing::Parts {
        let profiles = |kind| json!(fleet.parts.of_type(kind).map(|(_, profile)| profile).collect::<Vec<_>>());
        key["parts"] = TypeId::first(fleet.types.len()).map(profiles).collect();
    }
}

/// How much of a GPU a part of this name is, 0 to 1; 1 where there is none of that name.
pub(super) fn size(fleet: &Fleet, name: &str) -> f64 {
    let part = fleet.parts.named(name).next();
    part.map_or(1.0, |part| f64::from(fleet.parts.share(part)) / f64::from(Job::WHOLE))
}

/// Checks the parts that jobs are drawn to ask for.
pub(super) fn check_drawn(source: &Source, parts: &BTreeMap<String, f64>, fleet: &Fleet) -> Result<(), Error> {
    let wrong = |message: String| source.error("workload.parts", &message, "here");
    if fleet.sharing != Sharing::Parts && !parts.is_empty() {
        return Err(wrong("these jobs ask for parts of GPUs, the fleet's are not cut".into()).hint("sharing: Parts"));
    }
    for name in parts.keys().filter(|name| *name != WHOLE) {
        let named: Vec<PartId> = fleet.parts.named(name).collect();
        if named.is_empty() {
            let hint = no_such_part(name, fleet);
            let message = format!("no GPU has the part {name:?}");
            return Err(wrong(message).hint(format!("{hint}; {WHOLE:?} draws jobs that ask for none")));
        }
        if named.len() > 1 {
            let message = format!("{name:?} is {}", alternatives(&named, fleet));
            return Err(wrong(message).hint("give the parts of one kind other names, with `parts` of the fleet"));
        }
    }
    Ok(())
}

/// What to say where a fleet lacks a part.
fn no_such_part(name: &str, fleet: &Fleet) -> String {
    let known = fleet.parts.names();
    let listed = format!("parts are {}", known.join(", "));
    nearest(name, known.iter().copied()).map_or(listed, |near| format!("did you mean {near:?}?"))
}

/// Parts of one name, by their slices.
fn alternatives(parts: &[PartId], fleet: &Fleet) -> String {
    let describe = |part: &PartId| {
        let kind = TypeId::first(fleet.types.len()).find(|kind| fleet.parts.has(*kind, *part));
        let (kind, slices) = (kind.map_or("", |kind| fleet.types[kind].name.as_str()), fleet.parts.slices(*part));
        format!("{slices} slice{} of {kind}", if slices == 1 { "" } else { "s" })
    };
    parts.iter().map(describe).collect::<Vec<_>>().join(" or ")
}

/// What a row asks of its one GPU.
pub(super) struct Piece {
    /// The part.
    pub part: Option<PartId>,
    /// Thousandths of the GPU.
    pub share: u32,
    /// The types that it may run on; empty: any.
    pub gpu_types: Vec<TypeId>,
}

/// The part or the share that a row asks for, of the types that it allows.
///
/// # Errors
/// A part that these have not, or that is another one on some of them; a part of a GPU that is not cut, a share of one that is.
pub(super) fn of_row(row: &Row, share: u32, gpu_types: Vec<TypeId>, fleet: &Fleet) -> Result<Piece, Error> {
    let wrong = |why: String| Error::usage(format!("job {:?} {why}", row.name));
    let is_cut = fleet.sharing == Sharing::Parts;
    let Some(name) = row.part.as_deref() else {
        if is_cut && share < Job::WHOLE {
            let hint = format!("parts are {}", fleet.parts.names().join(", "));
            return Err(wrong("asks for a share of a GPU, the fleet's are cut into parts".into()).hint(hint));
        }
        return Ok(Piece { part: None, share, gpu_types });
    };
    if !is_cut {
        let error = wrong(format!("asks for the part {name:?} of a GPU, the fleet's are not cut"));
        return Err(error.hint("fleet: Model(…, sharing: Parts)"));
    }
    if row.gpus != 1 || share < Job::WHOLE || row.batch.is_some() {
        return Err(wrong(format!("asks for the part {name:?}: it has one GPU, no share and no batch")));
    }
    let allowed = |kind: &TypeId| gpu_types.is_empty() || gpu_types.contains(kind);
    let types: Vec<TypeId> = TypeId::first(fleet.types.len()).filter(allowed).collect();
    let has = |part: &PartId| types.iter().any(|kind| fleet.parts.has(*kind, *part));
    let found: Vec<PartId> = fleet.parts.named(name).filter(has).collect();
    let part = match found.as_slice() {
        [part] => *part,
        [] => {
            let error = wrong(format!("asks for the part {name:?}, which no GPU that it may run on has"));
            return Err(error.hint(no_such_part(name, fleet)));
        }
        parts => {
            let error = wrong(format!("asks for the part {name:?}, which is {}", alternatives(parts, fleet)));
            return Err(error.hint("say which kinds it may run on"));
        }
    };
    let with_it: Vec<TypeId> = types.into_iter().filter(|kind| fleet.parts.has(*kind, part)).collect();
    let all = with_it.len() == fleet.types.len();
    Ok(Piece { part: Some(part), share: fleet.parts.share(part), gpu_types: if all { Vec::new() } else { with_it } })
}
