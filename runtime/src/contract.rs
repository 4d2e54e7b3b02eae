//! The types of `wit/`, as the host has them.

pub(crate) mod bindings;

pub use bindings::predictor::exports::sandtable::policy::provider::{
    Descriptor as ProviderDescriptor, Quantities, SoloQuantity, Sources,
};
pub use bindings::sandtable::policy::types::*;
