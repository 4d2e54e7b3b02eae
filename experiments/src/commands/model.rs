//! `sandtable model`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_core::text::nearest;
use sandtable_hardware::Group;
use sandtable_inputs::facts::{self, Walked, zoo};
use sandtable_run::learn::horus_features;

use crate::ui;

/// Facts of models.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models of the catalogue.
    List,
    /// Print what a model's computation graph shows: operations, bytes, and the features that policies use.
    Facts {
        /// An ONNX file, or a model of the catalogue.
        model: String,
        /// Samples per batch, if the graph leaves it open.
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        batch: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write the graph of a model of the catalogue as ONNX: dimensions, no weights.
    Graph {
        /// The model.
        model: String,
        /// Output file.
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
            let bytes = zoo::model(zoo::graph(entry(model)?)).to_bytes();
            output::write(output, &bytes)?;
            ui::note(&format!("{} bytes written to {}", bytes.len(), output.display()));
            Ok(ExitCode::Done)
        }
    }
}

fn entry(name: &str) -> Result<&'static zoo::CatalogueEntry, Error> {
    zoo::entries().find(|entry| entry.name == name).ok_or_else(|| {
        let error = Error::usage(format!("no model {name:?} in the catalogue"));
        match nearest(name, zoo::entries().map(|entry| entry.name)) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
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
    let mut table = Frame::new([
        Column::words("model"),
        Column::words("family"),
        Column::number("parameters"),
        Column::number("GMACs"),
        Column::number("layers"),
        Column::words("source"),
    ]);
    for facts in facts::catalogue() {
        table.push([
            (&facts.model).into(),
            (&facts.family).into(),
            scaled(facts.parameters).into(),
            format!("{:.3}", facts.layer_multiply_adds / 1e9).into(),
            facts.depth.into(),
            (&facts.source).into(),
        ]);
    }
    ui::result(&table.text());
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
    let mut columns = vec![Column::words("operator"), Column::count("nodes")];
    columns.extend(walked.total().all().map(|(name, _)| Column::number(name.replace('_', " "))));
    let mut table = Frame::new(columns);
    let row = |name: &str, nodes: u32, counts: Vec<String>| -> Vec<Value> {
        [name.into(), nodes.into()].into_iter().chain(counts.into_iter().map(Value::from)).collect()
    };
    for of in &walked.operators {
        table.push(row(&of.op, of.nodes, of.counts.all().map(|(_, x)| scaled(x)).to_vec()));
    }
    let nodes: u32 = walked.operators.iter().map(|row| row.nodes).sum();
    table.push(row("all", nodes, walked.total().all().map(|(_, x)| scaled(x)).to_vec()));
    ui::result(&table.text());
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
