//! How components are called, generated from `wit/`; the types are those of [`crate::contract`]. Imports are defined by hand in
//! `imports`, since each one charges fuel.

#![allow(missing_docs, unreachable_pub, clippy::all)]

/// The contract's types, with what the generated code expects of an interface: it has no function.
#[expect(dead_code, reason = "the generated code names it, and has nothing to add")]
pub mod types {
    pub use crate::contract::*;

    pub trait HostWithStore<T>: wasmtime::component::HasData {}
    impl<H: ?Sized, T> HostWithStore<T> for H where H: wasmtime::component::HasData {}
    pub trait Host {}
    impl<T: Host + ?Sized> Host for &mut T {}

    pub fn add_to_linker<T, D>(
        _: &mut wasmtime::component::Linker<T>,
        _: fn(&mut T) -> D::Data<'_>,
    ) -> wasmtime::Result<()>
    where
        D: HostWithStore<T>,
        for<'a> D::Data<'a>: Host,
        T: 'static,
    {
        Ok(())
    }
}

wasmtime::component::bindgen!({
    world: "policy",
    path: "../wit",
    with: { "sandtable:policy/types": crate::sandbox::bindings::types },
});

/// The other world: predictors.
pub mod predictor {
    wasmtime::component::bindgen!({
        world: "predictor-component",
        path: "../wit",
        with: {
            "sandtable:policy/types": crate::sandbox::bindings::types,
            "sandtable:policy/log": super::sandtable::policy::log,
        },
    });
}
