//! Writes the profiles that ship, from what they are made of: `just profiles`, with ../shared/data beside the checkout.

use std::path::Path;

use sandtable::profile::{gavel, synthetic, write};

fn main() -> Result<(), sandtable::Error> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = here.join("../../shared/data/gavel/oracle_throughputs.json");
    for (name, profile) in [("synthetic", synthetic()), ("gavel-fit", gavel(&table)?.without_pairs())] {
        let path = here.join(format!("specs/profiles/{name}.ron"));
        std::fs::write(&path, write(&profile)?).map_err(|error| sandtable::Error::file("write", &path, &error))?;
    }
    Ok(())
}
