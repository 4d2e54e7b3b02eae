//! Networks for small devices.

use super::{At, CatalogueEntry, Conv, Net};

const ONE: &str = "Howard et al., 2017, rectified up to 6 as the authors' code has it";
const TWO: &str = "Sandler et al., CVPR 2018, as torchvision has it";
const MNAS: &str = "Tan et al., CVPR 2019, as torchvision has it";
const SHUFFLE: &str = "Ma et al., ECCV 2018, as torchvision has it";
const CIFAR: &str = "Sandler et al., CVPR 2018; the first strides are 1 for 32×32, as widely used";
const EFFICIENT: &str = "Tan and Le, ICML 2019";
const EFFICIENT_CIFAR: &str = "Tan and Le, ICML 2019; the stem's stride is 1 for 32×32";
const THREE: &str = "Howard et al., ICCV 2019, the large one";

const fn entry(name: &'static str, family: &'static str, source: &'static str, build: fn(&mut Net)) -> CatalogueEntry {
    CatalogueEntry { name, family, source, build }
}

pub(super) const MODELS: &[CatalogueEntry] = &[
    entry("mobilenet", "mobilenet", ONE, mobilenet),
    entry("mobilenet_v2", "mobilenet", TWO, |net| mobilenet_v2(net, false)),
    entry("mobilenet_v2_cifar", "mobilenet", CIFAR, |net| mobilenet_v2(net, true)),
    entry("mobilenet_v3_large", "mobilenet", THREE, mobilenet_v3),
    entry("efficientnet_b0", "efficientnet", EFFICIENT, |net| efficientnet(net, false)),
    entry("efficientnet_b0_cifar", "efficientnet", EFFICIENT_CIFAR, |net| efficientnet(net, true)),
    entry("mnasnet0_5", "mnasnet", MNAS, |net| mnasnet(net, [16, 8, 16, 24, 40, 48, 96, 160])),
    entry("mnasnet0_75", "mnasnet", MNAS, |net| mnasnet(net, [24, 16, 24, 32, 64, 72, 144, 240])),
    entry("mnasnet1_0", "mnasnet", MNAS, |net| mnasnet(net, [32, 16, 24, 40, 80, 96, 192, 320])),
    entry("mnasnet1_3", "mnasnet", MNAS, |net| mnasnet(net, [40, 24, 32, 56, 104, 128, 248, 416])),
    entry("shufflenet_v2_x0_5", "shufflenet", SHUFFLE, |net| shufflenet(net, [48, 96, 192, 1024])),
    entry("shufflenet_v2_x1_0", "shufflenet", SHUFFLE, |net| shufflenet(net, [116, 232, 464, 1024])),
    entry("shufflenet_v2_x1_5", "shufflenet", SHUFFLE, |net| shufflenet(net, [176, 352, 704, 1024])),
    entry("shufflenet_v2_x2_0", "shufflenet", SHUFFLE, |net| shufflenet(net, [244, 488, 976, 2048])),
];

/// A convolution of each channel by itself.
fn depthwise(x: &At, kernel: u64, stride: u64) -> Conv {
    Conv { group: x.channels(), ..Conv::new(x.channels(), kernel, stride) }
}

fn conv_norm(net: &mut Net, x: &At, conv: Conv) -> At {
    let x = net.conv(x, conv);
    net.norm(&x)
}

/// With an activation of another kind behind it.
fn conv_norm_then(net: &mut Net, x: &At, conv: Conv, activation: &str) -> At {
    let x = conv_norm(net, x, conv);
    act(net, &x, activation)
}

fn act(net: &mut Net, x: &At, activation: &str) -> At {
    if activation == "Swish" {
        let gate = net.same("Sigmoid", x);
        return net.multiply(x, &gate);
    }
    net.same(activation, x)
}

fn mobilenet(net: &mut Net) {
    let x = net.input(&[3, 224, 224]);
    let mut x = conv_norm_then(net, &x, Conv::new(32, 3, 2), "Clip");
    let blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)];
    for (out, stride) in blocks.into_iter().chain([(512, 1); 5]).chain([(1024, 2), (1024, 1)]) {
        x = conv_norm_then(net, &x, depthwise(&x, 3, stride), "Clip");
        x = conv_norm_then(net, &x, Conv::new(out, 1, 1), "Clip");
    }
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}

/// An inverted bottleneck, with a squeeze-and-excitation of `squeeze` channels if that is not 0.
struct Block {
    expand: u64,
    out: u64,
    kernel: u64,
    stride: u64,
    squeeze: u64,
    activation: &'static str,
}

fn inverted(net: &mut Net, x: &At, block: &Block) -> At {
    let mut y = x.clone();
    if block.expand != x.channels() {
        y = conv_norm_then(net, &y, Conv::new(block.expand, 1, 1), block.activation);
    }
    y = conv_norm_then(net, &y, depthwise(&y, block.kernel, block.stride), block.activation);
    if block.squeeze > 0 {
        let s = net.global_average(&y);
        let s = net.reshape(&s, &[y.channels(), 1, 1]);
        let s = net.conv(&s, Conv { bias: true, ..Conv::new(block.squeeze, 1, 1) });
        let s = act(net, &s, if block.activation == "Swish" { "Swish" } else { "Relu" });
        let s = net.conv(&s, Conv { bias: true, ..Conv::new(y.channels(), 1, 1) });
        let s = net.same(if block.activation == "Swish" { "Sigmoid" } else { "HardSigmoid" }, &s);
        y = net.multiply(&y, &s);
    }
    y = conv_norm(net, &y, Conv::new(block.out, 1, 1));
    if block.stride == 1 && x.channels() == block.out { net.add(x, &y) } else { y }
}

fn mobilenet_v2(net: &mut Net, small: bool) {
    let x = if small { net.input(&[3, 32, 32]) } else { net.input(&[3, 224, 224]) };
    let mut x = conv_norm_then(net, &x, Conv::new(32, 3, if small { 1 } else { 2 }), "Clip");
    // Expansion, channels, blocks, stride.
    let stages =
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];
    for (at, (times, out, blocks, stride)) in stages.into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if block > 0 || (small && at == 1) { 1 } else { stride };
            let expand = x.channels() * times;
            x = inverted(net, &x, &Block { expand, out, kernel: 3, stride, squeeze: 0, activation: "Clip" });
        }
    }
    let x = conv_norm_then(net, &x, Conv::new(1280, 1, 1), "Clip");
    let x = net.global_average(&x);
    net.dense(&x, if small { 10 } else { 1000 });
}

fn mobilenet_v3(net: &mut Net) {
    let x = net.input(&[3, 224, 224]);
    let mut x = conv_norm_then(net, &x, Conv::new(16, 3, 2), "HardSwish");
    // Kernel, expansion, channels, squeeze, rectified, stride.
    let blocks = [
        (3, 16, 16, 0, true, 1),
        (3, 64, 24, 0, true, 2),
        (3, 72, 24, 0, true, 1),
        (5, 72, 40, 24, true, 2),
        (5, 120, 40, 32, true, 1),
        (5, 120, 40, 32, true, 1),
        (3, 240, 80, 0, false, 2),
        (3, 200, 80, 0, false, 1),
        (3, 184, 80, 0, false, 1),
        (3, 184, 80, 0, false, 1),
        (3, 480, 112, 120, false, 1),
        (3, 672, 112, 168, false, 1),
        (5, 672, 160, 168, false, 2),
        (5, 960, 160, 240, false, 1),
        (5, 960, 160, 240, false, 1),
    ];
    for (kernel, expand, out, squeeze, rectified, stride) in blocks {
        let activation = if rectified { "Relu" } else { "HardSwish" };
        x = inverted(net, &x, &Block { expand, out, kernel, stride, squeeze, activation });
    }
    let x = conv_norm_then(net, &x, Conv::new(960, 1, 1), "HardSwish");
    let x = net.global_average(&x);
    let x = net.dense(&x, 1280);
    let x = net.same("HardSwish", &x);
    net.dense(&x, 1000);
}

fn efficientnet(net: &mut Net, small: bool) {
    let x = if small { net.input(&[3, 32, 32]) } else { net.input(&[3, 224, 224]) };
    let mut x = conv_norm_then(net, &x, Conv::new(32, 3, if small { 1 } else { 2 }), "Swish");
    // Expansion, channels, blocks, stride, kernel.
    let stages = [
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ];
    for (times, out, blocks, stride, kernel) in stages {
        for block in 0..blocks {
            let stride = if block > 0 { 1 } else { stride };
            let (expand, squeeze) = (x.channels() * times, x.channels() / 4);
            x = inverted(net, &x, &Block { expand, out, kernel, stride, squeeze, activation: "Swish" });
        }
    }
    let x = conv_norm_then(net, &x, Conv::new(1280, 1, 1), "Swish");
    let x = net.global_average(&x);
    net.dense(&x, if small { 10 } else { 1000 });
}

fn mnasnet(net: &mut Net, depths: [u64; 8]) {
    let x = net.input(&[3, 224, 224]);
    let x = net.conv_norm_relu(&x, Conv::new(depths[0], 3, 2));
    let x = net.conv_norm_relu(&x, depthwise(&x, 3, 1));
    let mut x = conv_norm(net, &x, Conv::new(depths[1], 1, 1));
    // Kernel, stride, expansion, blocks.
    let stages = [(3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1)];
    for (at, (kernel, stride, times, blocks)) in stages.into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            let (expand, out) = (x.channels() * times, depths[at + 2]);
            x = inverted(net, &x, &Block { expand, out, kernel, stride, squeeze: 0, activation: "Relu" });
        }
    }
    let x = net.conv_norm_relu(&x, Conv::new(1280, 1, 1));
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}

fn shufflenet(net: &mut Net, channels: [u64; 4]) {
    let x = net.input(&[3, 224, 224]);
    let x = net.conv_norm_relu(&x, Conv::new(24, 3, 2));
    let mut x = net.max_pool(&x, 3, 2, 1);
    for (out, blocks) in channels.into_iter().zip([4, 8, 4]) {
        let half = out / 2;
        for block in 0..blocks {
            let stride = if block == 0 { 2 } else { 1 };
            let (side, main) = if block == 0 {
                let side = conv_norm(net, &x, depthwise(&x, 3, 2));
                (net.conv_norm_relu(&side, Conv::new(half, 1, 1)), x)
            } else {
                (net.slice(&x, 0, half), net.slice(&x, half, out))
            };
            let y = net.conv_norm_relu(&main, Conv::new(half, 1, 1));
            let y = conv_norm(net, &y, depthwise(&y, 3, stride));
            let y = net.conv_norm_relu(&y, Conv::new(half, 1, 1));
            let joined = net.concat(&[side, y]);
            let (h, w) = (joined.shape[1], joined.shape[2]);
            let shuffled = net.reshape(&joined, &[2, half, h, w]);
            let shuffled = net.transpose(&shuffled, &[1, 0, 2, 3]);
            x = net.reshape(&shuffled, &[out, h, w]);
        }
    }
    let x = net.conv_norm_relu(&x, Conv::new(channels[3], 1, 1));
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}
