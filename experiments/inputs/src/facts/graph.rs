//! A node of a computation graph, and the tensors that flow into it.

use super::onnx::{Attribute, Node};

/// A tensor on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) shape: Vec<u64>,
    /// Whole numbers that are known before the graph runs: shapes are made of them.
    pub(super) values: Option<Vec<i64>>,
    /// Weights, which are there before any sample.
    pub(super) weight: bool,
    /// Convolutions and dense layers before it, on the longest path.
    pub(super) depth: u32,
}

impl Flow {
    pub(super) fn elements(&self) -> f64 {
        self.shape.iter().map(|dim| *dim as f64).product()
    }
}

/// A node with what flows into it.
pub(super) struct Site<'a> {
    pub(super) node: &'a Node,
    pub(super) inputs: Vec<Flow>,
}

impl Site<'_> {
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|found| found.i)
    }

    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|found| found.ints.as_slice())
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// An input that must be there.
    pub(super) fn input(&self, at: usize) -> Result<&Flow, String> {
        let there = self.node.input.get(at).is_some_and(|name| !name.is_empty());
        let found = self.inputs.get(at).filter(|_| there);
        found.ok_or_else(|| format!("input {at} is missing, {} are there", self.node.input.len()))
    }

    /// An input that need not.
    pub(super) fn optional(&self, at: usize) -> Option<&Flow> {
        self.input(at).ok()
    }
}
