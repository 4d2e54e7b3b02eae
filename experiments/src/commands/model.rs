//! `sandtable model`.

use std::path::{Path, PathBuf};

use sandtable_hardware::Group;

use crate::columns::columns;
use crate::error::{Error, ExitCode};
use crate::facts::{self, Walked, zoo};
use crate::learn::horus_features;
use crate::output;
use crate::text::nearest;
use crate::ui;

/// Facts of models.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ModelCommand {
    /// The models of the catalogue.
    List,
    /// What a model's computation graph shows: operations, bytes, and the features that policies use.
    Facts {
        /// An ONNX file, or a model of the catalogue.
        model: String,
        /// Samples of a batch, where the graph leaves them open.
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        batch: u64,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the graph of a model of the catalogue as ONNX: dimensions, no weights.
    Graph {
        /// The model.
        model: String,
        /// Where to.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

pub(crate) fn run(command: &ModelCommand) -> Result<ExitCode, Error> {
    match command {
        ModelCommand::List => list(),
        ModelCommand::Facts { model, batch, json } => {
            let walked = walked(model, *batch)?;
            if *json {
                as_json(&walked)?;
            } else {
                as_text(&walked);
            }
            Ok(ExitCode::Done)
        }
        ModelCommand::Graph { model, output } => {
            let bytes = prost::Message::encode_to_vec(&zoo::model(zoo::graph(entry(model)?)));
            output::write(output, &bytes)?;
            ui::note(&format!("{} bytes written to {}", bytes.len(), output.display()));
            Ok(ExitCode::Done)
        }
    }
}

fn entry(name: &str) -> Result<&'static zoo::Entry, Error> {
    zoo::entries().find(|entry| entry.name == name).ok_or_else(|| {
        let error = Error::usage(format!("no model {name:?} in the catalogue"));
        match nearest(name, zoo::entries().map(|entry| entry.name)) {
            Some(near) => error.hint(format!("is {near:?} meant?")),
            None => error.hint("`sandtable model list` has them all; a file's name ends in .onnx"),
        }
    })
}

fn walked(model: &str, batch: u64) -> Result<Walked, Error> {
    if model.ends_with(".onnx") || Path::new(model).exists() {
        return facts::of_file(Path::new(model), batch);
    }
    let entry = entry(model)?;
    let walked = facts::walk_graph(&zoo::graph(entry), batch).map_err(|error| Error::internal(error.to_string()));
    walked.map(|mut walked| {
        walked.facts.family = entry.family.into();
        walked
    })
}

fn list() -> Result<ExitCode, Error> {
    let mut rows = vec![["model", "family", "parameters", "GMACs", "layers", "source"].map(str::to_string).to_vec()];
    for facts in facts::catalogue() {
        rows.push(vec![
            facts.model.clone(),
            facts.family.clone(),
            scaled(facts.parameters),
            format!("{:.3}", facts.layer_multiply_adds / 1e9),
            facts.depth.to_string(),
            facts.source.clone(),
        ]);
    }
    ui::result(&columns(&rows));
    Ok(ExitCode::Done)
}

/// With three digits after the point and a prefix.
fn scaled(x: f64) -> String {
    let steps = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match steps.iter().find(|(step, _)| x >= *step) {
        Some((step, name)) => format!("{:.3}{name}", x / step),
        // A sum of nothing is minus zero.
        None => format!("{}", x + 0.0),
    }
}

fn as_text(walked: &Walked) {
    let facts = &walked.facts;
    ui::result(&format!("{}, batch {}\n\n", facts.model, walked.batch));
    let mut rows = vec![["operator", "nodes"].map(str::to_string).to_vec()];
    rows[0].extend(walked.total().all().map(|(name, _)| name.replace('_', " ")));
    for row in &walked.operators {
        let counts = row.counts.all().map(|(_, x)| scaled(x));
        rows.push([row.op.clone(), row.nodes.to_string()].into_iter().chain(counts).collect());
    }
    let nodes: u32 = walked.operators.iter().map(|row| row.nodes).sum();
    let total = walked.total().all().map(|(_, x)| scaled(x));
    rows.push(["all".to_string(), nodes.to_string()].into_iter().chain(total).collect());
    ui::result(&columns(&rows));
    ui::result("\nfor one sample\n");
    for (name, x) in [
        ("trained parameters", facts.parameters),
        ("multiply-adds of convolutions and dense layers", facts.layer_multiply_adds),
        ("elements that they give", facts.layer_outputs),
        ("elements that convolutions read and give", facts.layer_traffic),
        ("elements that everything else gives", facts.elementwise_outputs),
        ("layers on the longest path", facts.depth),
    ] {
        ui::result(&format!("  {name:<48}{}\n", scaled(x)));
    }
    let parts = Group::ALL.iter().zip(facts.group_nodes).zip(facts.group_flops);
    for ((group, nodes), flops) in parts {
        let name = format!("{group:?}: operators, part of the FLOPs");
        ui::result(&format!("  {name:<48}{nodes}, {:.4}\n", flops / facts.total.flops.max(1.0)));
    }
    ui::result("\nfeatures of similarity (log10)\n");
    facts.core6().iter().for_each(|(name, x)| ui::result(&format!("  {name:<24}{x:.6}\n")));
    ui::result("\nfeatures of Horus\n");
    horus_features(facts, walked.batch as f64, false)
        .iter()
        .for_each(|(name, x)| ui::result(&format!("  {name:<24}{x:.6}\n")));
}

fn as_json(walked: &Walked) -> Result<(), Error> {
    let features = |list: Vec<(String, f64)>| list.into_iter().collect::<std::collections::BTreeMap<_, _>>();
    let core6 = walked.facts.core6().iter().map(|(name, x)| ((*name).to_string(), *x)).collect();
    let value = serde_json::json!({
        "batch": walked.batch,
        "operators": walked.operators,
        "total": walked.total(),
        "facts": walked.facts,
        "similarity": features(core6),
        "horus": features(horus_features(&walked.facts, walked.batch as f64, false)),
    });
    let text = serde_json::to_string_pretty(&value).map_err(|error| Error::internal(error.to_string()))?;
    ui::result(&(text + "\n"));
    Ok(())
}
