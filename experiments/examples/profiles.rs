//! Writes the profiles that ship, from what they are made of: `just profiles`, with copies of the tables of
//! Gavel (github.com/stanford-futuredata/gavel), Pollux (petuum/adaptdl) and torchvision-gpu-bench (made from
//! ryujaehun/pytorch-gpu-benchmark) in ../shared/data beside the checkout.

use std::path::Path;

#[path = "../inputs/src/profile/pollux_fit.rs"]
mod pollux_fit;

use sandtable::facts::fill;
use sandtable::profile::{fitted, gavel, pollux, pollux_fitted, pollux_types, synthetic, torchvision, write};

fn main() -> Result<(), sandtable::Error> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = here.join("../../shared/data/gavel/oracle_throughputs.json");
    let steps = here.join("../../shared/data/torchvision-gpu-bench/step_ms.csv");
    let fitted = |precision: &str| -> Result<sandtable_hardware::Profile, sandtable::Error> {
        let about =
            format!("32 vision models on four GPUs at {precision} precision: what is fitted to their step times");
        Ok(fitted(&fill(torchvision(&steps, precision)?, here)?, &about))
    };
    let elastic = pollux_fitted(&pollux(&here.join("../../shared/data/pollux"))?, pollux_fit::pollux_fit)?;
    let all = [
        ("synthetic", synthetic()),
        ("gavel-fit", gavel(&table)?.without_pairs()),
        ("vision-float", fitted("float")?),
        ("vision-half", fitted("half")?),
        ("pollux-types", pollux_types(&elastic)?),
        ("pollux-fit", elastic),
    ];
    for (name, profile) in all {
        let path = here.join(format!("specs/profiles/{name}.ron"));
        std::fs::write(&path, write(&profile)?).map_err(|error| sandtable::Error::file("write", &path, &error))?;
    }
    Ok(())
}
