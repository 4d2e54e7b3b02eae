//! Graphs of well-known models, written here from their papers: dimensions and no weights. The catalogue is what a walk
//! over them says.

mod classic;
mod mobile;
mod others;
mod residual;

use super::onnx::{Attribute, Dim, Graph, Kind, Model, Node, Opset, Shape, Tensor, TensorKind, ValueInfo};

/// A model of the zoo.
pub struct CatalogueEntry {
    /// Its name, as torchvision has it where torchvision has it.
    pub name: &'static str,
    /// Models of one family share an architecture.
    pub family: &'static str,
    /// Where its dimensions come from.
    pub source: &'static str,
    /// Builds it.
    pub build: fn(&mut Net),
}

/// Every model, by family.
pub fn entries() -> impl Iterator<Item = &'static CatalogueEntry> {
    residual::MODELS.iter().chain(classic::MODELS).chain(mobile::MODELS).chain(others::MODELS)
}

/// The graph of a model.
pub fn graph(entry: &CatalogueEntry) -> Graph {
    let mut net = Net::default();
    (entry.build)(&mut net);
    net.graph.name = entry.name.into();
    net.graph.doc_string = entry.source.into();
    net.graph
}

/// A graph as a file.
pub fn model(graph: Graph) -> Model {
    let opset_import = vec![Opset { domain: String::new(), version: 20 }];
    Model { ir_version: 9, producer_name: "sandtable".into(), graph: Some(graph), opset_import }
}

/// A tensor under construction: its name, and its shape without the batch.
#[derive(Clone)]
pub struct At {
    name: String,
    pub(crate) shape: Vec<u64>,
}

impl At {
    /// Its channels.
    pub fn channels(&self) -> u64 {
        self.shape[0]
    }
}

/// How a convolution is laid out.
#[derive(Clone, Copy)]
pub struct Conv {
    pub(crate) out: u64,
    pub(crate) kernel: (u64, u64),
    pub(crate) stride: u64,
    pub(crate) pad: (u64, u64),
    pub(crate) group: u64,
    pub(crate) bias: bool,
}

impl Conv {
    /// Square, as large after as before where the stride is 1; no bias.
    pub fn new(out: u64, kernel: u64, stride: u64) -> Conv {
        let pad = kernel / 2;
        Conv { out, kernel: (kernel, kernel), stride, pad: (pad, pad), group: 1, bias: false }
    }
}

/// A graph under construction.
#[derive(Default)]
pub struct Net {
    graph: Graph,
}

impl Net {
    /// The batch of images, or whatever a sample is.
    pub fn input(&mut self, shape: &[u64]) -> At {
        self.entry(shape, Tensor::FLOAT)
    }

    /// A batch of numbers of words, users or items.
    pub fn ids(&mut self, shape: &[u64]) -> At {
        self.entry(shape, Tensor::INT64)
    }

    fn entry(&mut self, shape: &[u64], elem_type: i32) -> At {
        let name = format!("input{}", self.graph.input.len());
        let batch = Dim { value: None, param: Some("batch".into()) };
        let fixed = shape.iter().map(|dim| Dim { value: Some(*dim as i64), param: None });
        let shape_of = Shape { dim: [batch].into_iter().chain(fixed).collect() };
        let tensor = TensorKind { elem_type, shape: Some(shape_of) };
        let kind = Some(Kind { tensor: Some(tensor) });
        self.graph.input.push(ValueInfo { name: name.clone(), kind });
        At { name, shape: shape.to_vec() }
    }

    fn weight(&mut self, dims: &[u64]) -> String {
        let name = format!("w{}", self.graph.initializer.len());
        let dims = dims.iter().map(|dim| *dim as i64).collect();
        self.graph.initializer.push(Tensor { name: name.clone(), dims, data_type: Tensor::FLOAT, ..Tensor::default() });
        name
    }

    fn numbers(&mut self, numbers: &[i64]) -> String {
        let name = format!("w{}", self.graph.initializer.len());
        let (dims, int64_data) = (vec![numbers.len() as i64], numbers.to_vec());
        let tensor = Tensor { name: name.clone(), dims, data_type: Tensor::INT64, int64_data, ..Tensor::default() };
        self.graph.initializer.push(tensor);
        name
    }

    fn node(&mut self, op: &str, inputs: &[String], attribute: Vec<Attribute>, shape: Vec<u64>) -> At {
        let name = format!("{}{}", op.to_lowercase(), self.graph.node.len());
        self.graph.node.push(Node {
            input: inputs.to_vec(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: op.into(),
            attribute,
        });
        At { name, shape }
    }

    /// A convolution over images, or over sequences where the tensor has one extent.
    pub fn conv(&mut self, x: &At, conv: Conv) -> At {
        let Conv { out, kernel, stride, pad, group, bias } = conv;
        let rank = x.shape.len() - 1;
        let (kernels, pads) = ([kernel.0, kernel.1], [pad.0, pad.1]);
        let mut inputs = vec![x.name.clone()];
        let dims: Vec<u64> = [out, x.channels() / group].into_iter().chain(kernels[..rank].iter().copied()).collect();
        inputs.push(self.weight(&dims));
        if bias {
            inputs.push(self.weight(&[out]));
        }
        let whole = |list: &[u64]| list.iter().map(|x| *x as i64).collect::<Vec<i64>>();
        let attributes = vec![
            Attribute::ints("kernel_shape", &whole(&kernels[..rank])),
            Attribute::ints("strides", &vec![stride as i64; rank]),
            Attribute::ints("pads", &[whole(&pads[..rank]), whole(&pads[..rank])].concat()),
            Attribute::int("group", group as i64),
        ];
        let extent = |at: usize| (x.shape[at + 1] + 2 * pads[at] - kernels[at]) / stride + 1;
        let shape = [out].into_iter().chain((0..rank).map(extent)).collect();
        self.node("Conv", &inputs, attributes, shape)
    }

    /// A convolution that makes images larger; no bias.
    pub fn conv_transpose(&mut self, x: &At, out: u64, kernel: u64, stride: u64, pad: u64) -> At {
        let weights = self.weight(&[x.channels(), out, kernel, kernel]);
        let attributes =
            vec![Attribute::ints("strides", &[stride as i64; 2]), Attribute::ints("pads", &[pad as i64; 4])];
        let extent = |at: usize| stride * (x.shape[at] - 1) + kernel - 2 * pad;
        self.node("ConvTranspose", &[x.name.clone(), weights], attributes, vec![out, extent(1), extent(2)])
    }

    pub(crate) fn norm(&mut self, x: &At) -> At {
        let mut inputs = vec![x.name.clone()];
        for _ in 0..4 {
            inputs.push(self.weight(&[x.channels()]));
        }
        self.node("BatchNormalization", &inputs, vec![], x.shape.clone())
    }

    /// Any operator that keeps the shape of its one input.
    pub fn same(&mut self, op: &str, x: &At) -> At {
        self.node(op, std::slice::from_ref(&x.name), vec![], x.shape.clone())
    }

    pub(crate) fn relu(&mut self, x: &At) -> At {
        self.same("Relu", x)
    }

    /// Convolution, normalisation, rectification.
    pub fn conv_norm_relu(&mut self, x: &At, conv: Conv) -> At {
        let x = self.conv(x, conv);
        let x = self.norm(&x);
        self.relu(&x)
    }

    pub(crate) fn add(&mut self, x: &At, y: &At) -> At {
        self.node("Add", &[x.name.clone(), y.name.clone()], vec![], x.shape.clone())
    }

    pub(crate) fn multiply(&mut self, x: &At, y: &At) -> At {
        self.node("Mul", &[x.name.clone(), y.name.clone()], vec![], x.shape.clone())
    }

    pub(crate) fn concat(&mut self, parts: &[At]) -> At {
        let inputs: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
        let channels = parts.iter().map(At::channels).sum();
        let shape = [channels].into_iter().chain(parts[0].shape[1..].iter().copied()).collect();
        self.node("Concat", &inputs, vec![Attribute::int("axis", 1)], shape)
    }

    /// `MaxPool` or `AveragePool`.
    pub fn pool(&mut self, op: &str, x: &At, kernel: u64, stride: u64, pad: u64, round_up: bool) -> At {
        let attributes = vec![
            Attribute::ints("kernel_shape", &[kernel as i64; 2]),
            Attribute::ints("strides", &[stride as i64; 2]),
            Attribute::ints("pads", &[pad as i64; 4]),
            Attribute::int("ceil_mode", i64::from(round_up)),
        ];
        let free = |at: usize| x.shape[at] + 2 * pad - kernel;
        let extent = |at: usize| if round_up { free(at).div_ceil(stride) } else { free(at) / stride } + 1;
        let shape = vec![x.channels(), extent(1), extent(2)];
        self.node(op, std::slice::from_ref(&x.name), attributes, shape)
    }

    pub(crate) fn max_pool(&mut self, x: &At, kernel: u64, stride: u64, pad: u64) -> At {
        self.pool("MaxPool", x, kernel, stride, pad, false)
    }

    /// The mean of each channel, flat.
    pub fn global_average(&mut self, x: &At) -> At {
        let shape = [x.channels()].into_iter().chain(x.shape[1..].iter().map(|_| 1)).collect();
        let x = self.node("GlobalAveragePool", std::slice::from_ref(&x.name), vec![], shape);
        self.flatten(&x)
    }

    pub(crate) fn flatten(&mut self, x: &At) -> At {
        let shape = vec![x.shape.iter().product()];
        self.node("Flatten", std::slice::from_ref(&x.name), vec![Attribute::int("axis", 1)], shape)
    }

    /// A dense layer with bias on a flat tensor.
    pub fn dense(&mut self, x: &At, out: u64) -> At {
        let inputs = [x.name.clone(), self.weight(&[out, x.channels()]), self.weight(&[out])];
        self.node("Gemm", &inputs, vec![Attribute::int("transB", 1)], vec![out])
    }

    /// A dense layer with bias on every element of a sequence.
    pub fn project(&mut self, x: &At, out: u64) -> At {
        let (steps, width) = (x.shape[0], x.shape[1]);
        let weights = self.weight(&[width, out]);
        let x = self.node("MatMul", &[x.name.clone(), weights], vec![], vec![steps, out]);
        let bias = self.weight(&[out]);
        self.node("Add", &[x.name.clone(), bias], vec![], vec![steps, out])
    }

    /// The product of two tensors that are both computed.
    pub fn product(&mut self, x: &At, y: &At) -> At {
        let mut shape = x.shape.clone();
        if let (Some(last), Some(columns)) = (shape.last_mut(), y.shape.last()) {
            *last = *columns;
        }
        self.node("MatMul", &[x.name.clone(), y.name.clone()], vec![], shape)
    }

    /// Rows of a table that is trained.
    pub fn embed(&mut self, x: &At, words: u64, width: u64) -> At {
        let table = self.weight(&[words, width]);
        let shape = x.shape.iter().copied().chain([width]).collect();
        self.node("Gather", &[table, x.name.clone()], vec![Attribute::int("axis", 0)], shape)
    }

    pub(crate) fn layer_norm(&mut self, x: &At) -> At {
        let width = x.shape.last().copied().unwrap_or(1);
        let inputs = [x.name.clone(), self.weight(&[width]), self.weight(&[width])];
        self.node("LayerNormalization", &inputs, vec![], x.shape.clone())
    }

    /// The batch stays what it is.
    pub fn reshape(&mut self, x: &At, shape: &[u64]) -> At {
        let wanted: Vec<i64> = [0].into_iter().chain(shape.iter().map(|dim| *dim as i64)).collect();
        let wanted = self.numbers(&wanted);
        self.node("Reshape", &[x.name.clone(), wanted], vec![], shape.to_vec())
    }

    /// `order` counts the dimensions without the batch, from 0.
    pub fn transpose(&mut self, x: &At, order: &[usize]) -> At {
        let perm: Vec<i64> = [0].into_iter().chain(order.iter().map(|at| *at as i64 + 1)).collect();
        let shape = order.iter().map(|at| x.shape[*at]).collect();
        self.node("Transpose", std::slice::from_ref(&x.name), vec![Attribute::ints("perm", &perm)], shape)
    }

    /// Channels `from..to`.
    pub fn slice(&mut self, x: &At, from: u64, to: u64) -> At {
        let bounds = [self.numbers(&[from as i64]), self.numbers(&[to as i64]), self.numbers(&[1])];
        let shape = [to - from].into_iter().chain(x.shape[1..].iter().copied()).collect();
        let [starts, ends, axes] = bounds;
        self.node("Slice", &[x.name.clone(), starts, ends, axes], vec![], shape)
    }

    /// A sequence through an LSTM of one direction.
    pub fn lstm(&mut self, x: &At, hidden: u64) -> At {
        let (steps, width) = (x.shape[0], x.shape[1]);
        // ONNX has the steps first, then the batch.
        let turned = [Attribute::ints("perm", &[1, 0, 2])];
        let x = self.node("Transpose", std::slice::from_ref(&x.name), turned.to_vec(), x.shape.clone());
        let weights = [vec![1, 4 * hidden, width], vec![1, 4 * hidden, hidden], vec![1, 8 * hidden]];
        let inputs: Vec<String> = [x.name].into_iter().chain(weights.map(|dims| self.weight(&dims))).collect();
        let y = self.node("LSTM", &inputs, vec![Attribute::int("hidden_size", hidden as i64)], vec![steps, hidden]);
        let one = self.numbers(&[1]);
        let y = self.node("Squeeze", &[y.name, one], vec![], vec![steps, hidden]);
        self.node("Transpose", std::slice::from_ref(&y.name), turned.to_vec(), vec![steps, hidden])
    }
}
