//! Which version of the contract a component was built for.

use wasmparser::names::{ComponentName, ComponentNameKind};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::names::{POLICY, TYPES};
use crate::fault::LoadFault;

/// A version as far as it matters: two of one track are compatible, as cargo has it.
fn track(name: &str) -> Option<((u64, u64), String)> {
    let name = ComponentName::new(name, 0).ok()?;
    let ComponentNameKind::Interface(interface) = name.kind() else { return None };
    let version = interface.version(None).ok()??;
    let minor = if version.major == 0 { version.minor } else { 0 };
    Some(((version.major, minor), version.to_string()))
}

/// Refuses a component that names interfaces of the contract in a version that this host does not speak.
///
/// # Errors
/// The version, if it is an older or a newer one.
pub(super) fn check(component: &Component, engine: &Engine) -> Result<(), LoadFault> {
    let types = component.component_type();
    let imports = types.imports(engine).map(|(name, _)| name);
    let names = imports.chain(types.exports(engine).map(|(name, _)| name)).filter(|name| name.starts_with(POLICY));
    let Some((host, _)) = track(TYPES) else { unreachable!("the contract's own name has a version") };
    for (found, version) in names.filter_map(track) {
        match found.cmp(&host) {
            std::cmp::Ordering::Less => return Err(LoadFault::OlderContract(version)),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => return Err(LoadFault::NewerContract(version)),
        }
    }
    Ok(())
}
