//! Residual and densely connected networks.

use super::{At, CatalogueEntry, Conv, Net};

const HE: &str = "He et al., CVPR 2016; stride in the 3×3 as torchvision has it";
const V1: &str = "He et al., CVPR 2016; stride in the first 1×1 as published";
const WIDE: &str = "Zagoruyko and Komodakis, BMVC 2016, as torchvision has it";
const NEXT: &str = "Xie et al., CVPR 2017, as torchvision has it";
const DENSE: &str = "Huang et al., CVPR 2017, as torchvision has it";
const CIFAR: &str = "He et al., CVPR 2016; stem and pooling for 32×32 as widely used";

const fn entry(name: &'static str, family: &'static str, source: &'static str, build: fn(&mut Net)) -> CatalogueEntry {
    CatalogueEntry { name, family, source, build }
}

pub(super) const MODELS: &[CatalogueEntry] = &[
    entry("resnet18", "resnet", HE, |net| resnet(net, &Layout::basic([2, 2, 2, 2]))),
    entry("resnet34", "resnet", HE, |net| resnet(net, &Layout::basic([3, 4, 6, 3]))),
    entry("resnet50", "resnet", HE, |net| resnet(net, &Layout::new([3, 4, 6, 3]))),
    entry("resnet101", "resnet", HE, |net| resnet(net, &Layout::new([3, 4, 23, 3]))),
    entry("resnet152", "resnet", HE, |net| resnet(net, &Layout::new([3, 8, 36, 3]))),
    entry("resnet50_v1", "resnet", V1, |net| resnet(net, &Layout { stride_first: true, ..Layout::new([3, 4, 6, 3]) })),
    entry("resnet152_v1", "resnet", V1, |net| {
        resnet(net, &Layout { stride_first: true, ..Layout::new([3, 8, 36, 3]) });
    }),
    entry("resnet18_cifar", "resnet", CIFAR, |net| resnet(net, &Layout { small: true, ..Layout::basic([2, 2, 2, 2]) })),
    entry("resnext50_32x4d", "resnext", NEXT, |net| {
        resnet(net, &Layout { group: 32, width: 4, ..Layout::new([3, 4, 6, 3]) });
    }),
    entry("resnext101_32x8d", "resnext", NEXT, |net| {
        resnet(net, &Layout { group: 32, width: 8, ..Layout::new([3, 4, 23, 3]) });
    }),
    entry("wide_resnet50_2", "resnet", WIDE, |net| resnet(net, &Layout { width: 128, ..Layout::new([3, 4, 6, 3]) })),
    entry("wide_resnet101_2", "resnet", WIDE, |net| resnet(net, &Layout { width: 128, ..Layout::new([3, 4, 23, 3]) })),
    entry("densenet121", "densenet", DENSE, |net| densenet(net, [6, 12, 24, 16], 32, 64)),
    entry("densenet161", "densenet", DENSE, |net| densenet(net, [6, 12, 36, 24], 48, 96)),
    entry("densenet169", "densenet", DENSE, |net| densenet(net, [6, 12, 32, 32], 32, 64)),
    entry("densenet201", "densenet", DENSE, |net| densenet(net, [6, 12, 48, 32], 32, 64)),
];

struct Layout {
    blocks: [u64; 4],
    /// Two 3×3 instead of a bottleneck.
    basic: bool,
    group: u64,
    /// Of each group, per 64 channels.
    width: u64,
    stride_first: bool,
    /// For images of 32×32 and ten classes.
    small: bool,
}

impl Layout {
    fn new(blocks: [u64; 4]) -> Layout {
        Layout { blocks, basic: false, group: 1, width: 64, stride_first: false, small: false }
    }

    fn basic(blocks: [u64; 4]) -> Layout {
        Layout { basic: true, ..Layout::new(blocks) }
    }
}

fn resnet(net: &mut Net, plan: &Layout) {
    let mut x = if plan.small {
        let x = net.input(&[3, 32, 32]);
        net.conv_norm_relu(&x, Conv::new(64, 3, 1))
    } else {
        let x = net.input(&[3, 224, 224]);
        let x = net.conv_norm_relu(&x, Conv::new(64, 7, 2));
        net.max_pool(&x, 3, 2, 1)
    };
    for (stage, blocks) in plan.blocks.iter().enumerate() {
        let planes = 64 << stage;
        for block in 0..*blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = residual(net, &x, plan, planes, stride);
        }
    }
    let x = net.global_average(&x);
    net.dense(&x, if plan.small { 10 } else { 1000 });
}

fn residual(net: &mut Net, x: &At, plan: &Layout, planes: u64, stride: u64) -> At {
    let out = if plan.basic { planes } else { planes * 4 };
    let y = if plan.basic {
        let y = net.conv_norm_relu(x, Conv::new(planes, 3, stride));
        net.conv(&y, Conv::new(planes, 3, 1))
    } else {
        let width = planes * plan.width / 64 * plan.group;
        let (first, second) = if plan.stride_first { (stride, 1) } else { (1, stride) };
        let y = net.conv_norm_relu(x, Conv::new(width, 1, first));
        let y = net.conv_norm_relu(&y, Conv { group: plan.group, ..Conv::new(width, 3, second) });
        net.conv(&y, Conv::new(out, 1, 1))
    };
    let y = net.norm(&y);
    let x = if stride != 1 || x.channels() != out {
        let x = net.conv(x, Conv::new(out, 1, stride));
        net.norm(&x)
    } else {
        x.clone()
    };
    let sum = net.add(&y, &x);
    net.relu(&sum)
}

fn densenet(net: &mut Net, blocks: [u64; 4], growth: u64, stem: u64) {
    let x = net.input(&[3, 224, 224]);
    let x = net.conv_norm_relu(&x, Conv::new(stem, 7, 2));
    let mut x = net.max_pool(&x, 3, 2, 1);
    for (stage, layers) in blocks.iter().enumerate() {
        for _ in 0..*layers {
            let y = net.norm(&x);
            let y = net.relu(&y);
            let y = net.conv_norm_relu(&y, Conv::new(4 * growth, 1, 1));
            let y = net.conv(&y, Conv::new(growth, 3, 1));
            x = net.concat(&[x, y]);
        }
        if stage < 3 {
            let y = net.norm(&x);
            let y = net.relu(&y);
            let y = net.conv(&y, Conv::new(x.channels() / 2, 1, 1));
            x = net.pool("AveragePool", &y, 2, 2, 0, false);
        }
    }
    let x = net.norm(&x);
    let x = net.relu(&x);
    let x = net.global_average(&x);
    net.dense(&x, 1000);
}
