//! What a build without the feature `plots` answers where a figure is to be drawn.

use sandtable_core::error::Error;

use super::{Figure, Forest, Paper};

pub(super) fn figure(_: &Figure, _: &Paper) -> Result<String, Error> {
    Err(lacks_plots())
}

pub(super) fn forest(_: &Forest) -> Result<String, Error> {
    Err(lacks_plots())
}

pub(super) fn pdf(_: &str, _: &str) -> Result<Vec<u8>, Error> {
    Err(lacks_plots())
}

pub(super) fn outlined(_: &str, _: &str) -> Result<String, Error> {
    Err(lacks_plots())
}

pub(super) fn png(_: &str, _: &str) -> Result<Vec<u8>, Error> {
    Err(lacks_plots())
}

fn lacks_plots() -> Error {
    Error::usage("this build draws no figures").hint("cargo build --release --features plots")
}
