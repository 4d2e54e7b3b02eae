//! Plain and branched networks for images.

use super::{At, CatalogueEntry, Conv, Net};

const VGG: &str = "Simonyan and Zisserman, ICLR 2015, as torchvision has it";
const SQUEEZE: &str = "Iandola et al., 2016, as torchvision has it";
const XCEPTION: &str = "Chollet, CVPR 2017; 299×299";
const INCEPTION: &str = "Szegedy et al., CVPR 2016, as torchvision has it, without the auxiliary classifier; 299×299";
const XCEPTION_224: &str = "Chollet, CVPR 2017; 224×224";
const INCEPTION_224: &str =
    "Szegedy et al., CVPR 2016, as torchvision has it, without the auxiliary classifier; 224×224";
const CIFAR: &str = "Simonyan and Zisserman, ICLR 2015; one dense layer for 32×32 as widely used";
const DCGAN: &str = "Radford et al., ICLR 2016; generator and discriminator of 64×64";

const fn entry(name: &'static str, family: &'static str, source: &'static str, build: fn(&mut Net)) -> CatalogueEntry {
    CatalogueEntry { name, family, source, build }
}

pub(super) const MODELS: &[CatalogueEntry] = &[
    entry("vgg11", "vgg", VGG, |net| vgg(net, [1, 1, 2, 2, 2], false)),
    entry("vgg11_bn", "vgg", VGG, |net| vgg(net, [1, 1, 2, 2, 2], true)),
    entry("vgg13", "vgg", VGG, |net| vgg(net, [2, 2, 2, 2, 2], false)),
    entry("vgg13_bn", "vgg", VGG, |net| vgg(net, [2, 2, 2, 2, 2], true)),
    entry("vgg16", "vgg", VGG, |net| vgg(net, [2, 2, 3, 3, 3], false)),
    entry("vgg16_bn", "vgg", VGG, |net| vgg(net, [2, 2, 3, 3, 3], true)),
    entry("vgg19", "vgg", VGG, |net| vgg(net, [2, 2, 4, 4, 4], false)),
    entry("vgg19_bn", "vgg", VGG, |net| vgg(net, [2, 2, 4, 4, 4], true)),
    entry("vgg16_cifar", "vgg", CIFAR, vgg_cifar),
    entry("squeezenet1_0", "squeezenet", SQUEEZE, |net| squeezenet(net, false)),
    entry("squeezenet1_1", "squeezenet", SQUEEZE, |net| squeezenet(net, true)),
    entry("xception", "xception", XCEPTION, |net| xception(net, 299)),
    entry("xception_224", "xception", XCEPTION_224, |net| xception(net, 224)),
    entry("inception_v3", "inception", INCEPTION, |net| inception(net, 299)),
    entry("inception_v3_224", "inception", INCEPTION_224, |net| inception(net, 224)),
    entry("dcgan", "dcgan", DCGAN, dcgan),
];

fn vgg_features(net: &mut Net, x: At, layers: [u64; 5], norm: bool) -> At {
    let mut x = x;
    for (stage, count) in layers.iter().enumerate() {
        let out = [64, 128, 256, 512, 512][stage];
        for _ in 0..*count {
            x = net.conv(&x, Conv { bias: true, ..Conv::new(out, 3, 1) });
            if norm {
                x = net.norm(&x);
            }
            x = net.relu(&x);
        }
        x = net.max_pool(&x, 2, 2, 0);
    }
    x
}

fn vgg(net: &mut Net, layers: [u64; 5], norm: bool) {
    let x = net.input(&[3, 224, 224]);
    let x = vgg_features(net, x, layers, norm);
    let x = net.flatten(&x);
    let x = net.dense(&x, 4096);
    let x = net.relu(&x);
    let x = net.dense(&x, 4096);
    let x = net.relu(&x);
    net.dense(&x, 1000);
}

fn vgg_cifar(net: &mut Net) {
    let x = net.input(&[3, 32, 32]);
    let x = vgg_features(net, x, [2, 2, 3, 3, 3], true);
    let x = net.flatten(&x);
    net.dense(&x, 10);
}

fn squeezenet(net: &mut Net, second: bool) {
    let x = net.input(&[3, 224, 224]);
    let stem = if second { Conv::new(64, 3, 2) } else { Conv::new(96, 7, 2) };
    let x = net.conv(&x, Conv { bias: true, pad: (0, 0), ..stem });
    let mut x = net.relu(&x);
    // Squeeze, expand; a pooling layer comes before the stages marked.
    let fires = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)];
    let pools: &[usize] = if second { &[0, 2, 4] } else { &[0, 3, 7] };
    for (at, (squeeze, expand)) in fires.into_iter().enumerate() {
        if pools.contains(&at) {
            x = net.pool("MaxPool", &x, 3, 2, 0, true);
        }
        let s = net.conv(&x, Conv { bias: true, ..Conv::new(squeeze, 1, 1) });
        let s = net.relu(&s);
        let branches = [1, 3].map(|kernel| {
            let y = net.conv(&s, Conv { bias: true, ..Conv::new(expand, kernel, 1) });
            net.relu(&y)
        });
        x = net.concat(&branches);
    }
    let x = net.conv(&x, Conv { bias: true, ..Conv::new(1000, 1, 1) });
    let x = net.relu(&x);
    net.global_average(&x);
}

fn separable(net: &mut Net, x: &At, out: u64) -> At {
    let y = net.conv(x, Conv { group: x.channels(), ..Conv::new(x.channels(), 3, 1) });
    let y = net.conv(&y, Conv::new(out, 1, 1));
    net.norm(&y)
}

fn xception(net: &mut Net, side: u64) {
    let x = net.input(&[3, side, side]);
    let x = net.conv_norm_relu(&x, Conv { pad: (0, 0), ..Conv::new(32, 3, 2) });
    let mut x = net.conv_norm_relu(&x, Conv { pad: (0, 0), ..Conv::new(64, 3, 1) });
    for (at, out) in [128, 256, 728].into_iter().enumerate() {
        let side = net.conv(&x, Conv::new(out, 1, 2));
        let side = net.norm(&side);
        let y = if at == 0 { x } else { net.relu(&x) };
        let y = separable(net, &y, out);
        let y = net.relu(&y);
        let y = separable(net, &y, out);
        let y = net.max_pool(&y, 3, 2, 1);
        x = net.add(&y, &side);
    }
    for _ in 0..8 {
        let mut y = x.clone();
        for _ in 0..3 {
            y = net.relu(&y);
            y = separable(net, &y, 728);
        }
        x = net.add(&y, &x);
    }
    let side = net.conv(&x, Conv::new(1024, 1, 2));
    let side = net.norm(&side);
    let y = net.relu(&x);
    let y = separable(net, &y, 728);
    let y = net.relu(&y);
    let y = separable(net, &y, 1024);
    let y = net.max_pool(&y, 3, 2, 1);
    let mut x = net.add(&y, &side);
    for out in [1536, 2048] {
        x = separable(net, &x, out);
        x = net.relu(&x);
    }
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}

/// Height and width.
type Extent = (u64, u64);

/// A branch: (channels, kernel, padding) one after another, the last with this stride.
fn branch(net: &mut Net, x: &At, convs: &[(u64, Extent, Extent)], stride: u64) -> At {
    let mut y = x.clone();
    for (at, (out, kernel, pad)) in convs.iter().enumerate() {
        let stride = if at + 1 == convs.len() { stride } else { 1 };
        y = net.conv_norm_relu(&y, Conv { out: *out, kernel: *kernel, stride, pad: *pad, group: 1, bias: false });
    }
    y
}

fn inception(net: &mut Net, side: u64) {
    const ONE: (Extent, Extent) = ((1, 1), (0, 0));
    const THREE: (Extent, Extent) = ((3, 3), (1, 1));
    const VALID: (Extent, Extent) = ((3, 3), (0, 0));
    const ROW: (Extent, Extent) = ((1, 7), (0, 3));
    const COLUMN: (Extent, Extent) = ((7, 1), (3, 0));
    let with = |out: u64, shape: (Extent, Extent)| (out, shape.0, shape.1);
    let x = net.input(&[3, side, side]);
    let x = branch(net, &x, &[with(32, VALID)], 2);
    let x = branch(net, &x, &[with(32, VALID), with(64, THREE)], 1);
    let x = net.max_pool(&x, 3, 2, 0);
    let x = branch(net, &x, &[with(80, ONE), with(192, VALID)], 1);
    let mut x = net.max_pool(&x, 3, 2, 0);
    let pooled = |net: &mut Net, x: &At, out: u64| {
        let y = net.pool("AveragePool", x, 3, 1, 1, false);
        branch(net, &y, &[with(out, ONE)], 1)
    };
    for pool in [32, 64, 64] {
        let a = branch(net, &x, &[with(64, ONE)], 1);
        let b = branch(net, &x, &[with(48, ONE), (64, (5, 5), (2, 2))], 1);
        let c = branch(net, &x, &[with(64, ONE), with(96, THREE), with(96, THREE)], 1);
        let d = pooled(net, &x, pool);
        x = net.concat(&[a, b, c, d]);
    }
    let a = branch(net, &x, &[with(384, VALID)], 2);
    let b = branch(net, &x, &[with(64, ONE), with(96, THREE), with(96, VALID)], 2);
    let c = net.max_pool(&x, 3, 2, 0);
    x = net.concat(&[a, b, c]);
    for width in [128, 160, 160, 192] {
        let a = branch(net, &x, &[with(192, ONE)], 1);
        let b = branch(net, &x, &[with(width, ONE), with(width, ROW), with(192, COLUMN)], 1);
        let c = [with(width, ONE), with(width, COLUMN), with(width, ROW), with(width, COLUMN), with(192, ROW)];
        let c = branch(net, &x, &c, 1);
        let d = pooled(net, &x, 192);
        x = net.concat(&[a, b, c, d]);
    }
    let a = branch(net, &x, &[with(192, ONE), with(320, VALID)], 2);
    let b = branch(net, &x, &[with(192, ONE), with(192, ROW), with(192, COLUMN), with(192, VALID)], 2);
    let c = net.max_pool(&x, 3, 2, 0);
    x = net.concat(&[a, b, c]);
    for _ in 0..2 {
        let a = branch(net, &x, &[with(320, ONE)], 1);
        let stem = branch(net, &x, &[with(384, ONE)], 1);
        let deep = branch(net, &x, &[with(448, ONE), with(384, THREE)], 1);
        let mut parts = vec![a];
        for from in [stem, deep] {
            parts.push(branch(net, &from, &[(384, (1, 3), (0, 1))], 1));
            parts.push(branch(net, &from, &[(384, (3, 1), (1, 0))], 1));
        }
        parts.push(pooled(net, &x, 192));
        x = net.concat(&parts);
    }
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}

fn dcgan(net: &mut Net) {
    let mut x = net.input(&[100, 1, 1]);
    for (at, out) in [512, 256, 128, 64].into_iter().enumerate() {
        x = if at == 0 { net.conv_transpose(&x, out, 4, 1, 0) } else { net.conv_transpose(&x, out, 4, 2, 1) };
        x = net.norm(&x);
        x = net.relu(&x);
    }
    x = net.conv_transpose(&x, 3, 4, 2, 1);
    x = net.same("Tanh", &x);
    for (at, out) in [64, 128, 256, 512].into_iter().enumerate() {
        x = net.conv(&x, Conv { pad: (1, 1), ..Conv::new(out, 4, 2) });
        if at > 0 {
            x = net.norm(&x);
        }
        x = net.same("LeakyRelu", &x);
    }
    x = net.conv(&x, Conv { pad: (0, 0), ..Conv::new(1, 4, 1) });
    net.same("Sigmoid", &x);
}
