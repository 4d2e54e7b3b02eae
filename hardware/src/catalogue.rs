//! GPU models that fleets may name, each with its source. A fleet may also name a type of its own and say its speed.

/// A model of GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuModel {
    /// The name by which specs know it.
    pub name: &'static str,
    /// Device memory, MiB.
    pub memory_mib: u32,
    /// Peak single-precision rate without tensor cores, GFLOP/s.
    pub fp32_gflops: u32,
    /// Where the figures come from.
    pub source: &'static str,
}

/// The models, by age.
pub const MODELS: &[GpuModel] = &[
    GpuModel {
        name: "K80",
        memory_mib: 11_441,
        fp32_gflops: 4_370,
        source: "NVIDIA Tesla K80 datasheet (one of the two dies)",
    },
    GpuModel { name: "P100-PCIE-16GB", memory_mib: 16_280, fp32_gflops: 9_300, source: "NVIDIA Tesla P100 datasheet" },
    GpuModel { name: "V100-SXM2-16GB", memory_mib: 16_160, fp32_gflops: 15_700, source: "NVIDIA V100 datasheet" },
    GpuModel { name: "TITAN-Xp", memory_mib: 12_288, fp32_gflops: 12_150, source: "NVIDIA TITAN Xp specifications" },
    GpuModel {
        name: "RTX-2080-Ti",
        memory_mib: 11_264,
        fp32_gflops: 13_450,
        source: "NVIDIA TU102 whitepaper (reference clocks)",
    },
    GpuModel { name: "TITAN-RTX", memory_mib: 24_576, fp32_gflops: 16_310, source: "NVIDIA TITAN RTX specifications" },
    GpuModel { name: "T4", memory_mib: 15_360, fp32_gflops: 8_100, source: "NVIDIA T4 datasheet" },
    GpuModel { name: "RTX-3090", memory_mib: 24_576, fp32_gflops: 35_580, source: "NVIDIA GA102 whitepaper" },
    GpuModel { name: "A100-SXM4-40GB", memory_mib: 40_960, fp32_gflops: 19_500, source: "NVIDIA A100 datasheet" },
    GpuModel { name: "A100-SXM4-80GB", memory_mib: 81_920, fp32_gflops: 19_500, source: "NVIDIA A100 datasheet" },
    GpuModel { name: "H100-SXM5-80GB", memory_mib: 81_559, fp32_gflops: 66_900, source: "NVIDIA H100 datasheet" },
    GpuModel { name: "H200-SXM-141GB", memory_mib: 143_771, fp32_gflops: 66_900, source: "NVIDIA H200 datasheet" },
];

/// The model of this name.
pub fn find(name: &str) -> Option<&'static GpuModel> {
    MODELS.iter().find(|model| model.name == name)
}
