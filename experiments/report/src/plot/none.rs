//! What a build without the feature `plots` answers where a figure is to be drawn.

use sandtable_core::error::Error;

use super::{Figure, FigureStyle, Forest};

pub(super) fn figure(_: &Figure, _: FigureStyle) -> Result<String, Error> {
    Err(lacks_plots())
}

pub(super) fn forest(_: &Forest) -> Result<String, Error> {
    Err(lacks_plots())
}

fn lacks_plots() -> Error {
    Error::usage("this build draws no figures").hint("cargo build --release --features plots")
}
