//! Device memory from counts of a computation graph.

/// MiB of the CUDA context.
pub const CONTEXT: f64 = 1000.0;

/// Bytes of an element, and of a MiB.
const ELEMENT: f64 = 4.0;
const MIB: f64 = 1_048_576.0;

/// Horus' formula, MiB, as another group has it (github.com/itu-rad/GPUMemNet and CARMA): activation elements of a
/// sample, batch, parameters. The gradients are multiplied by the batch, which is its flaw.
pub fn horus(activations: f64, batch: f64, parameters: f64) -> f64 {
    ELEMENT * ((activations * batch + parameters) + batch * parameters) / MIB
}

/// Activations once, parameters thrice, for gradients and momentum, and the context, MiB (ours).
pub fn steady(activations: f64, batch: f64, parameters: f64, context: f64) -> f64 {
    ELEMENT * (activations * batch + 3.0 * parameters) / MIB + context
}
