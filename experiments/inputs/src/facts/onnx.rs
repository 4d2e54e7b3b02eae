//! The handful of ONNX messages that a walk over a graph needs (`onnx.proto3`, field numbers as published). Weights are
//! read and not kept: sizes are all that counts.

#![expect(missing_docs, reason = "the names are those of onnx.proto3, which documents them")]

use prost::Message;

/// A file.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<Opset>,
}

impl Model {
    /// As a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// The operators that a file means.
#[derive(Clone, PartialEq, Message)]
pub struct Opset {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// Operators in topological order.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(string, tag = "10")]
    pub doc_string: String,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// An operator.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
}

/// A parameter of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, tag = "2")]
    pub f: f32,
    #[prost(int64, tag = "3")]
    pub i: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<Tensor>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

impl Attribute {
    const INT: i32 = 2;
    const INTS: i32 = 7;

    /// A whole number.
    pub fn int(name: &str, i: i64) -> Attribute {
        Attribute { name: name.into(), i, kind: Attribute::INT, ..Attribute::default() }
    }

    /// Whole numbers.
    pub fn ints(name: &str, ints: &[i64]) -> Attribute {
        Attribute { name: name.into(), ints: ints.to_vec(), kind: Attribute::INTS, ..Attribute::default() }
    }
}

/// Weights, or a constant.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
}

impl Tensor {
    /// `TensorProto.FLOAT`.
    pub const FLOAT: i32 = 1;
    /// `TensorProto.INT32`.
    pub const INT32: i32 = 6;
    /// `TensorProto.INT64`.
    pub const INT64: i32 = 7;

    /// Whole numbers that a shape may be made of; none for any other tensor.
    pub fn whole_numbers(&self) -> Option<Vec<i64>> {
        let width = match self.data_type {
            Tensor::INT64 => 8,
            Tensor::INT32 => 4,
            _ => return None,
        };
        if !self.int64_data.is_empty() {
            return Some(self.int64_data.clone());
        }
        let numbers = self.raw_data.chunks_exact(width).map(|bytes| {
            let mut wide = if bytes[width - 1] & 0x80 != 0 { [0xff; 8] } else { [0; 8] };
            wide[..width].copy_from_slice(bytes);
            i64::from_le_bytes(wide)
        });
        Some(numbers.collect())
    }
}

/// A tensor that enters or leaves.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<Kind>,
}

/// What it is.
#[derive(Clone, PartialEq, Message)]
pub struct Kind {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorKind>,
}

/// Its numbers and its shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorKind {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// Dimensions.
#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dim>,
}

/// A dimension: a number, or a name for one.
#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub param: Option<String>,
}
