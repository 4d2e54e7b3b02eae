//! Lucid's measured pairs (Hu et al., ASPLOS 2023; non-commercial licence: the user's own copy, never ours): RTX 3090,
//! solo utilisations and 1,388 pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{GpuProfile, Pair, Profile, Ring, ShareMode, Solo, Workload};
use serde::Deserialize;

use super::speed;

/// The type of GPU that all of it was measured on.
pub const KIND: &str = "RTX-3090";

#[derive(Deserialize)]
struct Alone {
    model: String,
    dataset: String,
    batchsize: f64,
    amp: u8,
    gpu_util: f64,
    gmem_util: f64,
    gmem: f64,
}

#[derive(Deserialize)]
struct Together {
    model1: String,
    dataset1: String,
    batchsize1: f64,
    amp1: u8,
    speed1: f64,
    model2: String,
    dataset2: String,
    batchsize2: f64,
    amp2: u8,
    speed2: f64,
}

fn name(model: &str, dataset: &str, batch: f64, amp: u8) -> String {
    format!("{model}/{dataset}/b{batch}/{}", if amp == 1 { "amp" } else { "fp32" })
}

/// Lucid's name of a model, and the one of the catalogue that it most likely is: versions and sizes are not published.
const MODELS: [(&str, &str); 14] = [
    ("BERT", "bert_base"),
    ("DCGAN", "dcgan"),
    ("EfficientNet", "efficientnet_b0_cifar"),
    ("LSTM", "lstm_lm"),
    ("MobileNetV2", "mobilenet_v2_cifar"),
    ("MobileNetV3", "mobilenet_v3_large"),
    ("NeuMF", "neumf"),
    ("PPO", "ppo"),
    ("PointNet", "pointnet"),
    ("ResNet18", "resnet18_cifar"),
    ("ResNet50", "resnet50"),
    ("TD3", "td3"),
    ("Transformer", "transformer"),
    ("VGG", "vgg16_cifar"),
];

/// Speeds of these were filled in, not measured: exactly 1 in every row.
fn imputed(model: &str) -> bool {
    matches!(model, "PPO" | "TD3")
}

fn records<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, Error> {
    let text = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    let mut all = Vec::new();
    for (index, record) in reader.deserialize().enumerate() {
        let wrong = |error: csv::Error| Error::usage(format!("{}:{}: {error}", path.display(), index + 2));
        all.push(record.map_err(wrong)?);
    }
    Ok(all)
}

/// Reads the folder. Speeds that were imputed are left out, speeds above 1 are errors of the solo reference and cut.
///
/// # Errors
/// A file that can't be read or is no such table.
pub fn lucid(folder: &Path) -> Result<Profile, Error> {
    let (mut workloads, mut solo) = (Vec::new(), BTreeMap::new());
    for alone in records::<Alone>(&folder.join("single_data.csv"))? {
        let name = name(&alone.model, &alone.dataset, alone.batchsize, alone.amp);
        let part = |percent: f64| Some((percent.clamp(0.0, 100.0) * 10.0).round() / 1000.0);
        solo.insert(
            name.clone(),
            Solo {
                utilisation: part(alone.gpu_util),
                memory_utilisation: part(alone.gmem_util),
                memory_mib: Some(alone.gmem.max(0.0) as u32),
                ..Solo::default()
            },
        );
        let model = MODELS.iter().find(|(theirs, _)| *theirs == alone.model).map(|(_, ours)| (*ours).to_string());
        workloads.push(Workload {
            name,
            family: alone.model,
            batch: Some(alone.batchsize),
            mixed_precision: alone.amp == 1,
            gradient_mb: None,
            communication: Ring::Ring,
            model,
            ..Workload::default()
        });
    }
    let mut pairs = Vec::new();
    let known: BTreeSet<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    for both in records::<Together>(&folder.join("colocate_info.csv"))? {
        let first = name(&both.model1, &both.dataset1, both.batchsize1, both.amp1);
        let second = name(&both.model2, &both.dataset2, both.batchsize2, both.amp2);
        if let Some(unknown) = [&first, &second].into_iter().find(|name| !known.contains(name.as_str())) {
            let path = folder.join("colocate_info.csv");
            return Err(Error::usage(format!("{}: {unknown} is not in single_data.csv", path.display())));
        }
        let of = |model: &str, x: f64| (!imputed(model)).then(|| speed(x.max(0.000_001)));
        pairs.push(Pair(first, second, of(&both.model1, both.speed1), of(&both.model2, both.speed2)));
    }
    let sources = [
        ("solo", "Lucid, single_data.csv, RTX 3090, nvidia-smi every 0.2 s"),
        ("pairs", "Lucid, colocate_info.csv; speeds above 1 cut, imputed ones (PPO, TD3) left out"),
        ("noise", "spread of the measured pairs around our fit S x A"),
    ];
    let profile = Profile {
        about: "Lucid's measured pairs (Hu et al., ASPLOS 2023; non-commercial)".into(),
        workloads,
        gpus: vec![GpuProfile {
            kind: KIND.into(),
            mode: ShareMode::TimeSlice,
            sources: sources.into_iter().map(|(what, from)| (what.into(), from.into())).collect(),
            noise: vec![(0.6, 0.10), (0.75, 0.12), (0.9, 0.078), (1.01, 0.043)],
            solo,
            pairs,
            measured: None,
        }],
    };
    profile.check().map_err(|error| Error::usage(format!("{}: {error}", folder.display())))?;
    Ok(profile)
}
