//! Which build this is.

/// The [fingerprint](crate::fingerprint) of the sources that this build's results depend on.
pub const BUILD: &str = env!("SANDTABLE_BUILD");
/// The commit that was checked out where it was built; empty outside of a checkout.
pub const COMMIT: &str = env!("SANDTABLE_COMMIT");
/// The version of wasmtime.
pub const WASMTIME: &str = env!("SANDTABLE_WASMTIME");
/// The machine's target triple.
pub const TARGET: &str = env!("SANDTABLE_TARGET");
