//! GPU models that fleets may name, each figure with its source (`hardware/catalogue.ron`). A fleet may also name a type of
//! its own and say its speed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::PartProfile;

/// A figure and the letter of its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure(pub f64, pub String);

impl Figure {
    /// Whether a source confirms it.
    pub fn is_verified(&self) -> bool {
        self.1 != "m"
    }
}

/// A model of GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Model", deny_unknown_fields)]
pub struct GpuModel {
    /// The name by which specs know it.
    pub name: String,
    /// What its driver calls it.
    pub driver: Vec<String>,
    /// Multiprocessors, or compute units.
    pub sms: Figure,
    /// Peak single-precision rate without tensor cores, GFLOP/s.
    pub fp32_gflops: Figure,
    /// Peak TF32 rate, GFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32_gflops: Option<Figure>,
    /// Peak rate in bf16, or fp16 where it has no bf16, GFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16_gflops: Option<Figure>,
    /// Device memory, MiB.
    pub memory_mib: Figure,
    /// Peak bandwidth of the device memory, GB/s.
    pub memory_gbps: Figure,
    /// Second-level cache, MB.
    pub l2_mb: Figure,
    /// Links to other GPUs, GB/s, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_gbps: Option<Figure>,
    /// Generation of PCIe.
    pub pcie: Figure,
    /// Power limit, W.
    pub watts: Figure,
    /// Bandwidth of the device memory that a copy reached, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_gbps: Option<Figure>,
    /// The parts that it can be cut into, in MIG mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartProfile>,
}

/// All models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// What the letters of sources stand for.
    pub sources: BTreeMap<String, String>,
    /// By age.
    pub models: Vec<GpuModel>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    match ron::Options::default()
        .with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME)
        .from_str(include_str!("../catalogue.ron"))
    {
        Ok(catalogue) => catalogue,
        Err(error) => unreachable!("catalogue.ron is checked by a test: {error}"),
    }
});

/// The catalogue.
pub fn catalogue() -> &'static Catalogue {
    &CATALOGUE
}

impl GpuModel {
    /// How fast a model trains here over how fast it does on a V100-SXM2-16GB: the geometric mean of the memory's bandwidth and
    /// the peak rate, where the rate is the geometric mean of FP32 and the best one (reconstruction: training is bound by
    /// either, and a part of it never runs on tensor cores). Means over the models that were measured differ from
    /// it by a factor of at most 1.5 (mixed precision, and FP32 on GPUs without tensor cores); single models by up to 2.6, and so
    /// does FP32 where tensor cores do it (TF32).
    pub fn relative_speed(&self) -> f64 {
        let of = |model: &GpuModel| {
            let best = model.bf16_gflops.as_ref().map_or(model.fp32_gflops.0, |best| best.0);
            (model.memory_gbps.0 * (model.fp32_gflops.0 * best).sqrt()).sqrt()
        };
        find("V100-SXM2-16GB").map_or(1.0, |v100| of(self) / of(v100))
    }

    /// Device memory, MiB.
    pub fn memory(&self) -> u32 {
        self.memory_mib.0 as u32
    }

    /// Every figure that is known, by name.
    pub fn figures(&self) -> Vec<(&'static str, &Figure)> {
        let all = [
            ("sms", Some(&self.sms)),
            ("fp32_gflops", Some(&self.fp32_gflops)),
            ("tf32_gflops", self.tf32_gflops.as_ref()),
            ("bf16_gflops", self.bf16_gflops.as_ref()),
            ("memory_mib", Some(&self.memory_mib)),
            ("memory_gbps", Some(&self.memory_gbps)),
            ("l2_mb", Some(&self.l2_mb)),
            ("link_gbps", self.link_gbps.as_ref()),
            ("pcie", Some(&self.pcie)),
            ("watts", Some(&self.watts)),
            ("achieved_gbps", self.achieved_gbps.as_ref()),
        ];
        all.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
    }
}

/// The model of this name.
///
/// ```
/// let v100 = sandtable_hardware::catalogue::find("V100-SXM2-16GB").expect("a model of the catalogue");
/// assert_eq!((v100.memory(), v100.relative_speed()), (16160, 1.0));
/// ```
pub fn find(name: &str) -> Option<&'static GpuModel> {
    catalogue().models.iter().find(|model| model.name == name)
}

/// The model that a driver calls so; of several with that name the one whose memory is nearest.
pub fn by_driver(name: &str, memory_mib: u32) -> Option<&'static GpuModel> {
    let named = catalogue().models.iter().filter(|model| model.driver.iter().any(|driver| driver == name));
    named.min_by_key(|model| model.memory().abs_diff(memory_mib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_source_and_makes_sense() {
        let catalogue = catalogue();
        assert!(catalogue.models.len() >= 20);
        for (index, model) in catalogue.models.iter().enumerate() {
            assert!(catalogue.models[..index].iter().all(|other| other.name != model.name), "{}", model.name);
            for (name, Figure(value, source)) in model.figures() {
                assert!(catalogue.sources.contains_key(source), "{} {name}: no source {source:?}", model.name);
                assert!(*value > 0.0 && value.is_finite(), "{} {name}: {value}", model.name);
            }
            let peak = |figure: &Option<Figure>| figure.as_ref().map_or(f64::INFINITY, |figure| figure.0);
            assert!(model.fp32_gflops.0 <= peak(&model.tf32_gflops), "{}", model.name);
            assert!(peak(&model.bf16_gflops) > model.fp32_gflops.0, "{}", model.name);
            if let Some(achieved) = &model.achieved_gbps {
                assert!(achieved.0 <= model.memory_gbps.0, "{}", model.name);
            }
        }
    }

    /// Memory, generation of PCIe and power limit, as `nvidia-smi -q -x` of real GPUs shows them.
    #[test]
    fn captures_of_real_gpus_agree() {
        let captured = [
            ("T4", 15_360, 3, 70),
            ("A100-SXM4-40GB", 40_960, 4, 400),
            ("L40S", 46_068, 4, 350),
            ("H100-SXM5-80GB", 81_559, 5, 700),
            ("B200-SXM-180GB", 183_359, 5, 1000),
        ];
        for (name, memory, pcie, watts) in captured {
            let model = find(name).unwrap();
            let found = (model.memory(), model.pcie.0 as u32, model.watts.0 as u32);
            assert_eq!(found, (memory, pcie, watts), "{name}");
            for figure in [&model.memory_mib, &model.pcie, &model.watts] {
                assert_eq!(figure.1, "s", "{name}");
            }
        }
        assert_eq!(find("H200-SXM-141GB").unwrap().memory(), 143_771);
    }

    #[test]
    fn models_are_known_by_what_drivers_call_them() {
        assert_eq!(by_driver("NVIDIA H200", 143_771).unwrap().name, "H200-SXM-141GB");
        assert_eq!(by_driver("Tesla V100-SXM2-32GB", 32_510).unwrap().name, "V100-SXM2-32GB");
        assert_eq!(by_driver("NVIDIA H900", 1), None);
    }
}
