//! The kernels that ship: their source, the PTX that it was compiled to, and the families that are made of them. The PTX is
//! committed beside the source, so that running needs no compiler; `just kernels` makes it anew.

use crate::Duration;

/// The source of all kernels.
pub const SOURCE: &str = include_str!("kernels/families.cu");
/// PTX for compute capability 7.5; without tensor cores in bf16.
pub const PTX_75: &str = include_str!("kernels/families-75.ptx");
/// PTX for compute capability 8.0 and later.
pub const PTX_80: &str = include_str!("kernels/families-80.ptx");

/// The architectures that are compiled for, and their files.
pub const TARGETS: [(&str, &str); 2] = [("compute_75", "families-75.ptx"), ("compute_80", "families-80.ptx")];

/// The line that begins a file of PTX: which source it is of.
pub fn heading(source_blake3: &str) -> String {
    format!("// families.cu {source_blake3}\n")
}

/// One launch of a step.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Its kernel.
    pub kernel: &'static str,
    /// Blocks; 0: `waves` for each multiprocessor.
    pub blocks: u32,
    /// Blocks for each multiprocessor.
    pub waves: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block, asked for at the launch.
    pub shared_bytes: u32,
    /// What the kernel calls `iters`, `x` or `ns`.
    pub iterations: u64,
}

/// A family as launches: a step is all of them, so many times.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The family.
    pub family: &'static str,
    /// Launches, in order.
    pub launches: &'static [Launch],
    /// Times that a step goes through them.
    pub repeats: u32,
    /// MiB of each of its two buffers.
    pub buffer_mib: u32,
    /// Time that it leaves the GPU alone after a step.
    pub rest: Duration,
    /// The compute capability that it needs, times ten.
    pub oldest: u32,
}

const fn whole(kernel: &'static str, iterations: u64) -> Launch {
    Launch { kernel, blocks: 0, waves: 8, threads: 256, shared_bytes: 0, iterations }
}

const fn shared(bytes: u32, iterations: u64) -> Launch {
    Launch { kernel: "k_smem", blocks: 0, waves: 4, threads: 256, shared_bytes: bytes, iterations }
}

const fn single(kernel: &'static str, threads: u32, iterations: u64) -> Launch {
    Launch { kernel, blocks: 1, waves: 1, threads, shared_bytes: 0, iterations }
}

const fn recipe_of(family: &'static str, launches: &'static [Launch], repeats: u32, buffer_mib: u32) -> Recipe {
    Recipe { family, launches, repeats, buffer_mib, rest: Duration::ZERO, oldest: 75 }
}

const fn tensor(recipe: Recipe) -> Recipe {
    Recipe { oldest: 80, ..recipe }
}

/// The families. Lengths are chosen for steps of some milliseconds on a large GPU of today, by calculation: no GPU was at
/// hand. A profile measures what they really take.
pub const RECIPES: &[Recipe] = &[
    recipe_of("fma", &[whole("k_fma", 60_000)], 1, 0),
    tensor(recipe_of("mma", &[whole("k_mma", 40_000)], 1, 0)),
    recipe_of("copy", &[whole("k_copy", 4)], 1, 1024),
    recipe_of("l2", &[whole("k_copy", 800)], 1, 8),
    recipe_of("smem", &[shared(4096, 40_000)], 1, 0),
    recipe_of("launch", &[single("k_empty", 32, 0)], 1000, 0),
    Recipe { rest: Duration::from_millis(5), ..recipe_of("host", &[whole("k_fma", 12_000)], 1, 0) },
    recipe_of("spin", &[single("k_spin", 32, 5_000_000)], 1, 0),
    tensor(recipe_of("resnet-like", &[whole("k_mma", 400), whole("k_copy", 1)], 30, 64)),
    tensor(recipe_of("bert-like", &[whole("k_mma", 4_000), whole("k_copy", 1)], 8, 64)),
    tensor(recipe_of("gpt-like", &[whole("k_mma", 2_000), whole("k_copy", 1), single("k_empty", 32, 0)], 16, 128)),
    recipe_of("optimizer-like", &[whole("k_copy", 1)], 4, 1024),
];

/// The recipe of a family.
pub fn recipe(family: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.family == family)
}

/// The PTX that runs a recipe on a device of this compute capability (times ten).
pub fn ptx_for(capability: u32, recipe: &Recipe) -> Option<&'static str> {
    match capability {
        _ if capability < recipe.oldest => None,
        75..80 => Some(PTX_75),
        80.. => Some(PTX_80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{FAMILIES, Kind};

    #[test]
    fn every_family_has_its_recipe_and_every_kernel_is_there() {
        for family in FAMILIES.iter().filter(|family| family.kind == Kind::Cuda) {
            let recipe = recipe(family.name).unwrap_or_else(|| panic!("{} has no recipe", family.name));
            for launch in recipe.launches {
                let ptx = ptx_for(recipe.oldest, recipe).unwrap();
                assert!(ptx.contains(&format!(".entry {}(", launch.kernel)), "{}: {}", family.name, launch.kernel);
                assert!(launch.kernel != "k_copy" || recipe.buffer_mib > 0, "{}", family.name);
                assert!(launch.kernel != "k_smem" || launch.threads.is_power_of_two(), "{}", family.name);
                assert!(launch.kernel != "k_smem" || launch.shared_bytes >= 4 * launch.threads, "{}", family.name);
            }
        }
    }

    #[test]
    fn older_devices_are_refused_what_they_cannot_run() {
        let fma = recipe("fma").unwrap();
        let mma = recipe("mma").unwrap();
        assert_eq!(ptx_for(70, fma), None);
        assert_eq!(ptx_for(75, fma), Some(PTX_75));
        assert_eq!(ptx_for(75, mma), None);
        assert_eq!(ptx_for(90, mma), Some(PTX_80));
    }

    #[test]
    fn the_ptx_names_this_source() {
        let blake3 = blake3::hash(SOURCE.as_bytes()).to_hex().to_string();
        for ptx in [PTX_75, PTX_80] {
            assert!(ptx.starts_with(&heading(&blake3)), "families.cu was changed: run `just kernels`");
            assert!(!ptx.contains("/root") && !ptx.contains("/home"), "no path of a machine");
        }
    }
}
