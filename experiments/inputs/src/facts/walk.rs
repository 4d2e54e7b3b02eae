//! A walk over a graph: shapes as they propagate, and what each operator counts.

use std::collections::BTreeMap;

use sandtable_hardware::{Counts, Group, ModelFacts};

use super::graph::{Flow, Site};
use super::onnx::{Graph, Model, Node, Tensor};
use super::rules::{self, Rule};
use super::shapes;

/// Why a graph can't be walked.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    #[error("no ONNX model: {0}")]
    Malformed(String),
    #[error("no graph in it")]
    NoGraph,
    #[error("operator {op} (node {node}) is not supported: there is {known}")]
    Unsupported { op: String, node: String, known: String },
    #[error("operator {op} (node {node}): {why}")]
    Operator { op: String, node: String, why: String },
    #[error("input {name}: {why}")]
    Input { name: String, why: String },
}

/// What one type of operator counts in a graph.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OperatorRow {
    /// The operator.
    pub op: String,
    /// How many nodes.
    pub nodes: u32,
    /// What they count together, for the batch.
    pub counts: Counts,
}

/// A walked graph.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Samples of a batch.
    pub batch: u64,
    /// By type of operator, in the order of the graph.
    pub operators: Vec<OperatorRow>,
    /// For one sample.
    pub facts: ModelFacts,
}

impl Walked {
    /// What a batch counts.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.operators.iter().for_each(|row| total += row.counts);
        total
    }
}

/// No tensor has more: counts stay exact.
const MOST_ELEMENTS: f64 = 9_007_199_254_740_992.0;

/// Most numbers of a tensor that shapes are made of.
const MOST_VALUES: usize = 1024;

/// Reads and walks a file's bytes. `batch` takes the place of a first dimension that has a name instead of a number.
///
/// # Errors
/// See [`GraphError`].
pub fn walk(bytes: &[u8], batch: u64) -> Result<Walked, GraphError> {
    let model: Model = prost::Message::decode(bytes).map_err(|error| GraphError::Malformed(error.to_string()))?;
    let graph = model.graph.ok_or(GraphError::NoGraph)?;
    walk_graph(&graph, batch)
}

/// Walks a graph.
///
/// # Errors
/// See [`GraphError`].
pub fn walk_graph(graph: &Graph, batch: u64) -> Result<Walked, GraphError> {
    if graph.node.is_empty() {
        return Err(GraphError::Malformed("its graph has no operator".into()));
    }
    let mut flows: BTreeMap<&str, Flow> = BTreeMap::new();
    for tensor in &graph.initializer {
        flows.insert(&tensor.name, constant(tensor));
    }
    let mut samples = None;
    for input in graph.input.iter().filter(|input| !flows.contains_key(input.name.as_str())).collect::<Vec<_>>() {
        let shape = input_shape(input, batch)?;
        samples = samples.or(shape.first().copied());
        flows.insert(&input.name, Flow { shape, ..Flow::default() });
    }
    let samples = samples.unwrap_or(1).max(1);
    let mut sum = Sum::default();
    for node in &graph.node {
        let inputs = node.input.iter().map(|name| match flows.get(name.as_str()) {
            Some(flow) => Ok(flow.clone()),
            None if name.is_empty() => Ok(Flow::default()),
            None => {
                let why = format!("nothing gives its input {name:?}");
                Err(GraphError::Operator { op: node.op_type.clone(), node: name_of(node), why })
            }
        });
        let site = Site { node, inputs: inputs.collect::<Result<_, _>>()? };
        let rule = rules::find(&node.op_type).ok_or_else(|| GraphError::Unsupported {
            op: node.op_type.clone(),
            node: name_of(node),
            known: rules::known(),
        })?;
        let wrong = |why: String| GraphError::Operator { op: node.op_type.clone(), node: name_of(node), why };
        let mut outputs = shapes::outputs(&site).map_err(wrong)?;
        // Shapes have few numbers: whatever has many is no shape, and copies of it would add up.
        outputs
            .iter_mut()
            .for_each(|flow| flow.values = flow.values.take().filter(|values| values.len() <= MOST_VALUES));
        let huge = outputs.iter().chain(&site.inputs).find(|flow| flow.elements() >= MOST_ELEMENTS);
        if let Some(flow) = huge {
            return Err(wrong(format!("a tensor of the shape {:?}", flow.shape)));
        }
        let counts = (rule.count)(&site, &outputs).map_err(wrong)?;
        sum.add(&site, rule, &mut outputs, counts);
        for (name, flow) in node.output.iter().zip(outputs) {
            flows.insert(name, flow);
        }
    }
    sum.facts.model.clone_from(&graph.name);
    sum.facts.source.clone_from(&graph.doc_string);
    Ok(sum.finish(samples))
}

/// What nodes of a graph amount to.
#[derive(Default)]
struct Sum {
    operators: Vec<OperatorRow>,
    facts: ModelFacts,
}

impl Sum {
    fn add(&mut self, site: &Site<'_>, rule: &Rule, outputs: &mut [Flow], counts: Counts) {
        let op = &site.node.op_type;
        match self.operators.iter_mut().find(|row| row.op == *op) {
            Some(row) => {
                row.nodes += 1;
                row.counts += counts;
            }
            None => self.operators.push(OperatorRow { op: op.clone(), nodes: 1, counts }),
        }
        let facts = &mut self.facts;
        let given: f64 = outputs.first().map_or(0.0, Flow::elements);
        let is_layer = rules::is_layer(site);
        if is_layer {
            facts.layer_multiply_adds += counts.multiply_adds;
            facts.layer_outputs += given;
        }
        if op == "Conv" || op == "ConvTranspose" {
            facts.layer_traffic += site.inputs.first().map_or(0.0, Flow::elements) + given;
        }
        if rule.elementwise {
            facts.elementwise_outputs += given;
        }
        // Every weight is counted where it is used; running statistics are not trained.
        let trained = site
            .inputs
            .iter()
            .enumerate()
            .filter(|(at, flow)| flow.weight && flow.values.is_none() && !(op == "BatchNormalization" && *at > 2));
        facts.parameters += trained.map(|(_, flow)| flow.elements()).sum::<f64>();
        if let Some(group) = rule.group {
            let at = Group::ALL.iter().position(|known| *known == group).unwrap_or(0);
            facts.group_nodes[at] += 1;
            facts.group_flops[at] += counts.flops;
        }
        let before = site.inputs.iter().map(|flow| flow.depth).max().unwrap_or(0);
        outputs.iter_mut().for_each(|flow| flow.depth = before + u32::from(is_layer));
        facts.depth = facts.depth.max(f64::from(before + u32::from(is_layer)));
    }

    fn finish(self, samples: u64) -> Walked {
        let (mut facts, n) = (self.facts, samples as f64);
        let mut total = Counts::default();
        self.operators.iter().for_each(|row| total += row.counts);
        let parameter_bytes = total.parameter_bytes;
        facts.total = Counts { parameter_bytes, ..total.per(n) };
        for x in [
            &mut facts.layer_multiply_adds,
            &mut facts.layer_outputs,
            &mut facts.layer_traffic,
            &mut facts.elementwise_outputs,
        ] {
            *x /= n;
        }
        facts.group_flops.iter_mut().for_each(|x| *x /= n);
        Walked { batch: samples, operators: self.operators, facts }
    }
}

fn name_of(node: &Node) -> String {
    let name = if node.name.is_empty() { node.output.first() } else { Some(&node.name) };
    format!("{:?}", name.map_or("", String::as_str))
}

fn constant(tensor: &Tensor) -> Flow {
    let shape: Vec<u64> = tensor.dims.iter().map(|dim| (*dim).max(0) as u64).collect();
    let count = shape.iter().fold(1u64, |product, dim| product.saturating_mul(*dim));
    let values = tensor.whole_numbers().filter(|values| values.len() as u64 == count);
    let values = values.filter(|values| values.len() <= MOST_VALUES);
    Flow { shape, values, weight: true, depth: 0 }
}

fn input_shape(input: &super::onnx::ValueInfo, batch: u64) -> Result<Vec<u64>, GraphError> {
    let wrong = |why: &str| GraphError::Input { name: format!("{:?}", input.name), why: why.into() };
    let shape = input.kind.as_ref().and_then(|kind| kind.tensor.as_ref()).and_then(|tensor| tensor.shape.as_ref());
    let dims = &shape.ok_or_else(|| wrong("it has no shape"))?.dim;
    let dim = |(at, dim): (usize, &super::onnx::Dim)| match dim.value {
        Some(value) if value > 1 << 31 => Err(wrong(&format!("a dimension of {value}"))),
        Some(value) if value > 0 => Ok(value as u64),
        _ if at == 0 => Ok(batch),
        _ => Err(wrong(&format!("expected a number for dimension {at}: only the first may have a name"))),
    };
    dims.iter().enumerate().map(dim).collect()
}
