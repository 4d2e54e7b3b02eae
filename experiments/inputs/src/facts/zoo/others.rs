//! Networks for text, recommendation, point clouds and control.

use super::{At, CatalogueEntry, Conv, Net};

const BERT: &str = "Devlin et al., NAACL 2019; 384 tokens, the question-answering head";
const TRANSFORMER: &str =
    "Vaswani et al., NeurIPS 2017, the encoder of the base model with its output layer; 64 tokens";
const LSTM: &str = "Zaremba et al., 2014, the medium model; 35 tokens";
const NEUMF: &str = "He et al., WWW 2017; MovieLens-1M, 8 factors";
const POINTNET: &str = "Qi et al., CVPR 2017, without the transformation networks; 2,500 points";
const CONTROL: &str = "two hidden layers for MuJoCo tasks, policy and value";

const fn entry(name: &'static str, family: &'static str, source: &'static str, build: fn(&mut Net)) -> CatalogueEntry {
    CatalogueEntry { name, family, source, build }
}

pub(super) const MODELS: &[CatalogueEntry] = &[
    entry("bert_base", "bert", BERT, |net| bert(net, 12, 768)),
    entry("bert_large", "bert", BERT, |net| bert(net, 24, 1024)),
    entry("transformer", "transformer", TRANSFORMER, transformer),
    entry("lstm_lm", "lstm", LSTM, lstm_lm),
    entry("neumf", "neumf", NEUMF, neumf),
    entry("pointnet", "pointnet", POINTNET, pointnet),
    entry("ppo", "control", CONTROL, |net| control(net, 64, 2)),
    entry("td3", "control", CONTROL, |net| control(net, 256, 3)),
];

/// Self-attention and a feed-forward layer, each with its residual and its normalisation.
fn encoder(net: &mut Net, x: &At, heads: u64, inner: u64) -> At {
    let (steps, width) = (x.shape[0], x.shape[1]);
    let head = width / heads;
    let [q, k, v] = [0, 1, 2].map(|_| {
        let y = net.project(x, width);
        net.reshape(&y, &[steps, heads, head])
    });
    let q = net.transpose(&q, &[1, 0, 2]);
    let k = net.transpose(&k, &[1, 2, 0]);
    let v = net.transpose(&v, &[1, 0, 2]);
    let scores = net.product(&q, &k);
    let scores = net.same("Softmax", &scores);
    let mixed = net.product(&scores, &v);
    let mixed = net.transpose(&mixed, &[1, 0, 2]);
    let mixed = net.reshape(&mixed, &[steps, width]);
    let mixed = net.project(&mixed, width);
    let x = net.add(&mixed, x);
    let x = net.layer_norm(&x);
    let y = net.project(&x, inner);
    let y = net.same("Gelu", &y);
    let y = net.project(&y, width);
    let x = net.add(&y, &x);
    net.layer_norm(&x)
}

fn bert(net: &mut Net, layers: u64, width: u64) {
    let tokens = net.ids(&[384]);
    let words = net.embed(&tokens, 30_522, width);
    let positions = net.embed(&tokens, 512, width);
    let segments = net.embed(&tokens, 2, width);
    let x = net.add(&words, &positions);
    let x = net.add(&x, &segments);
    let mut x = net.layer_norm(&x);
    for _ in 0..layers {
        x = encoder(net, &x, width / 64, 4 * width);
    }
    net.project(&x, 2);
}

fn transformer(net: &mut Net) {
    let tokens = net.ids(&[64]);
    let mut x = net.embed(&tokens, 10_000, 512);
    for _ in 0..6 {
        x = encoder(net, &x, 8, 2048);
    }
    let x = net.project(&x, 10_000);
    net.same("Softmax", &x);
}

fn lstm_lm(net: &mut Net) {
    let tokens = net.ids(&[35]);
    let mut x = net.embed(&tokens, 10_000, 650);
    for _ in 0..2 {
        x = net.lstm(&x, 650);
    }
    let x = net.project(&x, 10_000);
    net.same("Softmax", &x);
}

fn neumf(net: &mut Net) {
    let (user, item) = (net.ids(&[1]), net.ids(&[1]));
    let flat = |net: &mut Net, of: &At, count: u64, width: u64| {
        let x = net.embed(of, count, width);
        net.flatten(&x)
    };
    let (users, items) = (6_040, 3_706);
    let (p, q) = (flat(net, &user, users, 8), flat(net, &item, items, 8));
    let product = net.multiply(&p, &q);
    let (p, q) = (flat(net, &user, users, 32), flat(net, &item, items, 32));
    let mut x = net.concat(&[p, q]);
    for width in [32, 16, 8] {
        x = net.dense(&x, width);
        x = net.relu(&x);
    }
    let x = net.concat(&[product, x]);
    let x = net.dense(&x, 1);
    net.same("Sigmoid", &x);
}

fn pointnet(net: &mut Net) {
    let points = net.input(&[3, 2_500]);
    let mut x = points;
    for out in [64, 64, 64, 128, 1024] {
        x = net.conv_norm_relu(&x, Conv { bias: true, ..Conv::new(out, 1, 1) });
    }
    let mut x = net.global_average(&x);
    for out in [512, 256] {
        x = net.dense(&x, out);
        x = net.relu(&x);
    }
    net.dense(&x, 40);
}

/// `nets` networks of two hidden layers on one observation.
fn control(net: &mut Net, hidden: u64, nets: u64) {
    let observation = net.input(&[17]);
    for _ in 0..nets {
        let x = net.dense(&observation, hidden);
        let x = net.same("Tanh", &x);
        let x = net.dense(&x, hidden);
        let x = net.same("Tanh", &x);
        net.dense(&x, 6);
    }
}
