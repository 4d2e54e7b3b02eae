//! Pollux' own fit of its throughput model, for the profile that ships: the policies' code, which the binary itself does not
//! contain. `just profiles` and a test use it.

use sandtable_elastic::fit::{Observation, fit};
use sandtable_hardware::elastic::{Theta, Timing, Timings};

/// The fit to all that was measured, and to the tables of five nodes and more.
pub fn pollux_fit(timings: &Timings) -> Theta {
    let of = |nodes: u32, gpus: u32, all: &[Timing]| -> Vec<Observation> {
        let one = |at: &Timing| Observation {
            nodes,
            gpus,
            local: at.local as u32,
            compute: at.step - at.sync,
            step: at.step,
        };
        all.iter().map(one).collect()
    };
    let few = timings.placements.iter().flat_map(|(on, all)| of(on.len() as u32, on.iter().sum(), all));
    let wide = timings.wide.iter().flat_map(|((nodes, gpus), all)| of(*nodes, *gpus, all));
    let [ac, bc, an, bn, ar, br, gamma] = fit(&few.chain(wide).collect::<Vec<_>>()).0;
    Theta { compute: (ac, bc), across: (an, bn), within: (ar, br), gamma }
}
