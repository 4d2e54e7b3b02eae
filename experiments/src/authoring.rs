//! Writing and building policies: templates, and the tool chains of each language.

pub mod build;
pub mod guests;
pub mod quick;
pub mod template;
