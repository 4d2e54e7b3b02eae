//! Writing and building policies: templates, and the tool chains of each language.

pub mod build;
pub mod guests;
mod python;
pub mod quick;
pub mod template;
mod tools;
