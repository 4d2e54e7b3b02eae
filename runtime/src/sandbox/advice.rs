//! What a component may export besides: why jobs wait.

use wasmtime::Store;
use wasmtime::component::{Instance, TypedFunc};

use super::imports::Guest;
use super::names::ADVICE;
use crate::contract::{JobId, Reason};

/// `advice.explain` of a component.
pub(super) type Advice = TypedFunc<(Vec<JobId>,), (Vec<Reason>,)>;

/// `advice.explain`, where a component exports it.
///
/// # Errors
/// It is of another type.
pub(super) fn advice(store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Option<Advice>> {
    let Some(interface) = instance.get_export_index(&mut *store, None, ADVICE) else { return Ok(None) };
    let Some(explain) = instance.get_export_index(&mut *store, Some(&interface), "explain") else {
        wasmtime::bail!("`advice` has no function `explain`");
    };
    instance.get_typed_func(store, explain).map(Some)
}
