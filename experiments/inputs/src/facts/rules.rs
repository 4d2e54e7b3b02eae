//! What each operator counts, as in the extractor of Horus' authors (github.com/dborowiec10/onnx_flop_profiler; where
//! it differs from theirs a comment says so). Counts are for the whole batch.

use sandtable_hardware::{Counts, Group};

use super::graph::{Flow, Site};

type Count = fn(&Site<'_>, &[Flow]) -> Result<Counts, String>;

/// How an operator counts.
pub(super) struct Rule {
    op: &'static str,
    pub(super) count: Count,
    pub(super) group: Option<Group>,
    /// Whether what it gives is an element-wise output of the similarity features.
    pub(super) elementwise: bool,
}

const fn rule(op: &'static str, count: Count, group: Option<Group>, elementwise: bool) -> Rule {
    Rule { op, count, group, elementwise }
}

const E: Option<Group> = Some(Group::Elementwise);

const RULES: &[Rule] = &[
    rule("Conv", convolution, Some(Group::Conv), false),
    rule("ConvTranspose", transposed, Some(Group::Conv), false),
    rule("Gemm", gemm, Some(Group::Matrix), false),
    rule("MatMul", product, Some(Group::Matrix), false),
    rule("LSTM", lstm, Some(Group::Recurrent), false),
    rule("GRU", gru, Some(Group::Recurrent), false),
    rule("BatchNormalization", normalisation, Some(Group::Norm), true),
    rule("LayerNormalization", normalisation, Some(Group::Norm), true),
    rule("InstanceNormalization", normalisation, Some(Group::Norm), true),
    rule("Relu", |site, out| rectified(site, out, true), E, true),
    rule("LeakyRelu", |site, out| rectified(site, out, true), E, true),
    rule("PRelu", |site, out| rectified(site, out, true), E, true),
    rule("Clip", |site, out| rectified(site, out, false), E, true),
    rule("HardSigmoid", |site, out| rectified(site, out, true), E, true),
    rule("HardSwish", |site, out| rectified(site, out, true), E, true),
    rule("MaxPool", max_pool, E, true),
    rule("AveragePool", average_pool, E, true),
    rule("GlobalAveragePool", global_average, E, false),
    rule("GlobalMaxPool", global_average, E, false),
    rule("ReduceMean", global_average, E, true),
    rule("ReduceSum", global_average, E, true),
    rule("Add", sum, E, true),
    rule("Sub", sum, E, true),
    rule("Mul", times, E, true),
    rule("Div", over, E, true),
    rule("Sqrt", one_each, E, true),
    rule("Pow", one_each, E, true),
    rule("Exp", exponential, E, true),
    rule("Tanh", exponential, E, true),
    rule("Erf", exponential, E, true),
    rule("Gelu", exponential, E, true),
    rule("Softmax", softmax, E, true),
    rule("LogSoftmax", softmax, E, true),
    rule("Elu", kept, E, true),
    rule("Sigmoid", kept, E, true),
    rule("Concat", kept, None, true),
    rule("Reshape", kept, None, false),
    rule("Flatten", kept, None, false),
    rule("Slice", kept, None, false),
    rule("Split", kept, None, false),
    rule("Identity", kept, None, false),
    rule("Dropout", nothing, None, false),
    rule("Pad", copied, None, false),
    rule("Gather", copied, None, false),
    rule("Squeeze", copied, None, false),
    rule("Unsqueeze", copied, None, false),
    rule("Expand", copied, None, false),
    rule("Transpose", nothing, None, false),
    rule("Cast", nothing, None, false),
    rule("Shape", nothing, None, false),
    rule("Constant", nothing, None, false),
    rule("ConstantOfShape", nothing, None, false),
];

/// The rule of an operator.
pub(super) fn find(op: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.op == op)
}

/// Every operator that has one.
pub(super) fn known() -> String {
    RULES.iter().map(|rule| rule.op).collect::<Vec<_>>().join(", ")
}

/// Whether a node is a convolution or a dense layer: a product with weights.
pub(super) fn is_layer(site: &Site<'_>) -> bool {
    match site.node.op_type.as_str() {
        "Conv" | "ConvTranspose" | "Gemm" => true,
        "MatMul" => site.inputs.iter().any(|flow| flow.weight),
        _ => false,
    }
}

/// fp32.
const BYTES: f64 = 4.0;

fn elements(outputs: &[Flow]) -> f64 {
    outputs.iter().map(Flow::elements).sum()
}

fn kept(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    // Numbers that shapes are made of are no activations.
    if site.inputs.iter().all(|flow| flow.weight || flow.values.is_some()) {
        return Ok(Counts::default());
    }
    Ok(Counts { activation_bytes: BYTES * elements(outputs), ..Counts::default() })
}

fn copied(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    if outputs.iter().all(|flow| flow.values.is_some()) {
        return Ok(Counts::default());
    }
    let (taken, given) = (site.inputs.first().map_or(0.0, Flow::elements), elements(outputs));
    let moved = if site.node.op_type == "Pad" { given - taken } else { given };
    // An embedding's table is trained like any weight.
    let table = site.inputs.first().filter(|flow| flow.weight && site.node.op_type == "Gather");
    let parameter_bytes = BYTES * table.map_or(0.0, Flow::elements);
    Ok(Counts { other_bytes: BYTES * moved, parameter_bytes, ..Counts::default() })
}

fn nothing(_: &Site<'_>, _: &[Flow]) -> Result<Counts, String> {
    Ok(Counts::default())
}

fn convolution(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let (x, w) = (site.input(0)?, site.input(1)?);
    let group = site.int("group").unwrap_or(1).max(1) as f64;
    let kernel: f64 = w.shape[2..].iter().map(|k| *k as f64).product();
    let channels = x.shape[1] as f64;
    let multiply_adds = kernel * channels / group * elements(outputs);
    layer(site, multiply_adds, elements(outputs))
}

fn transposed(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let (x, w) = (site.input(0)?, site.input(1)?);
    let per_input: f64 = w.shape[1..].iter().map(|k| *k as f64).product();
    layer(site, per_input * x.elements(), elements(outputs))
}

/// Weights and bias are the second and the third input.
fn layer(site: &Site<'_>, multiply_adds: f64, given: f64) -> Result<Counts, String> {
    let weights = site.input(1)?.elements() + site.optional(2).map_or(0.0, Flow::elements);
    Ok(Counts {
        flops: 2.0 * multiply_adds,
        multiply_adds,
        activation_bytes: BYTES * given,
        parameter_bytes: BYTES * weights,
        ..Counts::default()
    })
}

/// The original adds the bias twice.
fn gemm(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let a = site.input(0)?;
    let inner = if site.int("transA").unwrap_or(0) == 0 { a.shape[1] } else { a.shape[0] };
    layer(site, inner as f64 * elements(outputs), elements(outputs))
}

/// The original subtracts (M - N) from the FLOPs, and counts no weights: those of a product with weights are counted
/// here.
fn product(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let (a, b) = (site.input(0)?, site.input(1)?);
    let inner = a.shape.last().copied().unwrap_or(1) as f64;
    let multiply_adds = inner * elements(outputs);
    let weights: f64 = [a, b].iter().filter(|flow| flow.weight).map(|flow| flow.elements()).sum();
    Ok(Counts {
        flops: 2.0 * multiply_adds,
        multiply_adds,
        activation_bytes: BYTES * elements(outputs),
        parameter_bytes: BYTES * weights,
        ..Counts::default()
    })
}

/// Steps, batch, width of the input, hidden width, directions.
fn recurrent(site: &Site<'_>) -> Result<[f64; 5], String> {
    let (x, r) = (site.input(0)?, site.input(2)?);
    if x.shape.len() != 3 || r.shape.len() != 3 {
        return Err(format!(
            "expected an input and weights of three dimensions, found {:?} and {:?}",
            x.shape, r.shape
        ));
    }
    let [steps, batch, input] = [x.shape[0] as f64, x.shape[1] as f64, x.shape[2] as f64];
    Ok([steps, batch, input, r.shape[2] as f64, r.shape[0] as f64])
}

fn weights(site: &Site<'_>) -> f64 {
    BYTES * site.inputs.iter().skip(1).take(3).map(Flow::elements).sum::<f64>()
}

/// A recurrent layer whose step in one direction takes so many FLOPs.
fn gated(site: &Site<'_>, step: f64) -> Result<Counts, String> {
    let [t, b, _, h, directions] = recurrent(site)?;
    let flops = step * t * directions;
    Ok(Counts {
        flops,
        multiply_adds: flops / 2.0,
        activation_bytes: BYTES * t * b * h * directions,
        parameter_bytes: weights(site),
        ..Counts::default()
    })
}

fn lstm(site: &Site<'_>, _: &[Flow]) -> Result<Counts, String> {
    let [_, b, i, h, _] = recurrent(site)?;
    let step = 2.0 * b * i * 4.0 * h + 2.0 * b * h * 4.0 * h + 2.0 * 8.0 * h + 6.0 * b * h;
    gated(site, step)
}

/// Two gates and the candidate, with their biases and six operations an element (reconstruction: the original's
/// element-wise terms are not known).
fn gru(site: &Site<'_>, _: &[Flow]) -> Result<Counts, String> {
    let [_, b, i, h, _] = recurrent(site)?;
    let gates = 2.0 * b * i * 2.0 * h + 2.0 * b * h * 2.0 * h;
    let candidate = 2.0 * b * i * h + 2.0 * b * h * h;
    gated(site, gates + candidate + 2.0 * 6.0 * h + 6.0 * b * h)
}

fn normalisation(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = outputs.first().map_or(0.0, Flow::elements);
    let weights: f64 = site.inputs.iter().skip(1).map(Flow::elements).sum();
    Ok(Counts {
        flops: 2.0 * e,
        additions: e,
        divisions: e,
        activation_bytes: BYTES * e,
        parameter_bytes: BYTES * weights,
        ..Counts::default()
    })
}

fn rectified(_: &Site<'_>, outputs: &[Flow], keeps: bool) -> Result<Counts, String> {
    let e = elements(outputs);
    let activation_bytes = if keeps { BYTES * e } else { 0.0 };
    Ok(Counts { flops: e, comparisons: e, activation_bytes, ..Counts::default() })
}

fn window(site: &Site<'_>) -> Result<f64, String> {
    let kernel = site.ints("kernel_shape").ok_or("no kernel_shape")?;
    Ok(kernel.iter().map(|k| *k as f64).product())
}

fn max_pool(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let given = outputs.first().map_or(0.0, Flow::elements);
    let looks = given * window(site)?;
    Ok(Counts { flops: looks, comparisons: looks, activation_bytes: BYTES * given, ..Counts::default() })
}

fn average_pool(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let given = elements(outputs);
    Ok(Counts { additions: given * window(site)?, activation_bytes: BYTES * given, ..Counts::default() })
}

/// Additions and the division are one sample's in the original, FLOPs are the batch's.
fn global_average(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let x = site.input(0)?;
    let samples = x.shape.first().copied().unwrap_or(1).max(1) as f64;
    let additions = x.elements() / samples;
    let flops = (additions + 1.0) * samples;
    Ok(Counts { flops, additions, divisions: 1.0, activation_bytes: BYTES * elements(outputs), ..Counts::default() })
}

fn sum(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = work(outputs);
    Ok(Counts { flops: e, additions: e, parameter_bytes: bias(site), ..Counts::default() })
}

fn times(site: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = work(outputs);
    Ok(Counts { flops: 2.0 * e, multiply_adds: e, parameter_bytes: bias(site), ..Counts::default() })
}

fn over(_: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = work(outputs);
    Ok(Counts { flops: e, divisions: e, activation_bytes: BYTES * e, ..Counts::default() })
}

/// Elements that are worked on when the graph runs.
fn work(outputs: &[Flow]) -> f64 {
    outputs.iter().filter(|flow| flow.values.is_none()).map(Flow::elements).sum()
}

/// Weights that are added or multiplied: a bias that was exported by itself. The original counts none.
fn bias(site: &Site<'_>) -> f64 {
    let weights = site.inputs.iter().filter(|flow| flow.weight && flow.values.is_none() && flow.shape.len() == 1);
    BYTES * weights.map(Flow::elements).sum::<f64>()
}

/// Not in the original's table.
fn one_each(_: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = work(outputs);
    Ok(Counts { flops: e, activation_bytes: BYTES * e, ..Counts::default() })
}

/// Not in the original's table.
fn exponential(_: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = elements(outputs);
    Ok(Counts { exponentials: e, activation_bytes: BYTES * e, ..Counts::default() })
}

fn softmax(_: &Site<'_>, outputs: &[Flow]) -> Result<Counts, String> {
    let e = elements(outputs);
    let activation_bytes = BYTES * e;
    Ok(Counts { exponentials: e, additions: e, divisions: e, activation_bytes, ..Counts::default() })
}
