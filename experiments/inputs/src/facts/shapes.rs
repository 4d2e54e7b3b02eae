//! How shapes propagate through operators, and the whole numbers that shapes are made of.

use super::graph::{Flow, Site};

/// What a node gives: shapes, and values where they are known beforehand.
pub(super) fn outputs(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let flow = |shape: Vec<u64>| Flow { shape, ..Flow::default() };
    let one = |shape: Vec<u64>| Ok(vec![flow(shape)]);
    match site.node.op_type.as_str() {
        "Conv" => one(convolved(site)?),
        "ConvTranspose" => one(grown(site)?),
        "MaxPool" | "AveragePool" => one(pooled(site)?),
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let x = &site.input(0)?.shape;
            one(x.iter().take(2).copied().chain(x.iter().skip(2).map(|_| 1)).collect())
        }
        "ReduceMean" | "ReduceSum" => one(reduced(site)?),
        "Gemm" => one(gemm(site)?),
        "MatMul" => one(product(site)?),
        "LSTM" | "GRU" => recurrent(site),
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => arithmetic(site),
        "Concat" => concatenated(site),
        "Reshape" => one(reshaped(site)?),
        "Expand" => {
            let wanted = site.input(1)?.values.clone().ok_or("its shape is not known beforehand")?;
            let wanted: Vec<u64> = wanted.iter().map(|dim| (*dim).max(1) as u64).collect();
            one(broadcast(&site.input(0)?.shape, &wanted)?)
        }
        "Flatten" => {
            let x = &site.input(0)?.shape;
            let axis = axis(site.int("axis").unwrap_or(1), x.len() + 1)?;
            one(vec![count(&x[..axis]), count(&x[axis..])])
        }
        "Transpose" => {
            let x = &site.input(0)?.shape;
            let order: Vec<usize> = match site.ints("perm") {
                Some(perm) => perm.iter().map(|at| axis(*at, x.len())).collect::<Result<_, _>>()?,
                None => (0..x.len()).rev().collect(),
            };
            // Weights stay weights, whichever way they lie.
            Ok(vec![Flow { weight: site.input(0)?.weight, ..flow(order.into_iter().map(|at| x[at]).collect()) }])
        }
        "Slice" => sliced(site),
        "Split" => split(site),
        "Pad" => {
            let given = site.ints("pads").map(<[i64]>::to_vec).or_else(|| site.optional(1)?.values.clone());
            let pads = sane(&given.ok_or("its pads are not known beforehand")?);
            let x = &site.input(0)?.shape;
            if pads.len() != 2 * x.len() {
                return Err(format!("{} pads for {} dimensions", pads.len(), x.len()));
            }
            let wide = |at: usize| (x[at] as i64 + pads[at] + pads[at + x.len()]).max(0) as u64;
            one((0..x.len()).map(wide).collect())
        }
        "Gather" => gathered(site),
        "Squeeze" | "Unsqueeze" => squeezed(site),
        "Shape" => {
            let x = &site.input(0)?.shape;
            let values: Vec<i64> = x.iter().map(|dim| *dim as i64).collect();
            Ok(vec![Flow { values: Some(values), ..flow(vec![x.len() as u64]) }])
        }
        "Constant" => {
            let tensor = site.attribute("value").and_then(|attribute| attribute.t.as_ref());
            let (shape, values) = match tensor {
                Some(tensor) => (tensor.dims.iter().map(|dim| *dim as u64).collect(), tensor.whole_numbers()),
                None => match (site.ints("value_ints"), site.int("value_int")) {
                    (Some(ints), _) => (vec![ints.len() as u64], Some(ints.to_vec())),
                    (None, int) => (vec![], int.map(|int| vec![int])),
                },
            };
            Ok(vec![Flow { values, weight: true, ..flow(shape) }])
        }
        "ConstantOfShape" => {
            let wanted = site.input(0)?.values.clone().ok_or("its shape is not known beforehand")?;
            one(wanted.iter().map(|dim| (*dim).max(0) as u64).collect())
        }
        "Cast" | "Identity" => Ok(vec![site.input(0)?.clone()]),
        _ => one(site.input(0)?.shape.clone()),
    }
}

/// Extents far beyond any real one are cut: sums of them stay numbers.
fn sane(ints: &[i64]) -> Vec<i64> {
    ints.iter().map(|i| (*i).clamp(-(1 << 31), 1 << 31)).collect()
}

fn count(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, dim| product.saturating_mul(*dim))
}

fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(at).ok().filter(|at| *at < rank.max(1)).ok_or(format!("axis {axis} of {rank} dimensions"))
}

fn spatial<'a>(site: &'a Site<'_>) -> Result<(&'a [u64], usize), String> {
    let x = &site.input(0)?.shape;
    if x.len() < 3 {
        return Err(format!("expected a batch of channels with space, found the shape {x:?}"));
    }
    Ok((x, x.len() - 2))
}

/// Extent of each dimension after a window has moved over it.
fn windows(site: &Site<'_>, kernel: &[i64], round_up: bool) -> Result<Vec<u64>, String> {
    let (x, rank) = spatial(site)?;
    if kernel.len() != rank {
        return Err(format!("a kernel of {} dimensions over {rank}", kernel.len()));
    }
    let list = |name: &str, none: i64, count: usize| -> Vec<i64> {
        site.ints(name).filter(|ints| ints.len() == count).map_or(vec![none; count], sane)
    };
    let (strides, dilations) = (list("strides", 1, rank), list("dilations", 1, rank));
    for (what, ints) in [("kernel", kernel), ("stride", &strides), ("dilation", &dilations)] {
        if let Some(wrong) = ints.iter().find(|i| **i < 1) {
            return Err(format!("a {what} of {wrong}"));
        }
    }
    let pads = list("pads", 0, 2 * rank);
    let auto =
        site.attribute("auto_pad").map_or("NOTSET".into(), |found| String::from_utf8_lossy(&found.s).to_string());
    let mut out = Vec::new();
    for at in 0..rank {
        let (extent, stride) = (x[at + 2] as i64, strides[at].max(1));
        let reach = dilations[at] * (kernel[at] - 1) + 1;
        let free = match auto.as_str() {
            "SAME_UPPER" | "SAME_LOWER" => {
                out.push((extent + stride - 1).div_euclid(stride).max(0) as u64);
                continue;
            }
            "VALID" => extent - reach,
            _ => extent + pads[at] + pads[at + rank] - reach,
        };
        if free < 0 {
            return Err(format!("a window of {reach} over {extent}"));
        }
        let steps = if round_up { (free + stride - 1) / stride } else { free / stride };
        out.push(steps as u64 + 1);
    }
    Ok(out)
}

fn convolved(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let (x, rank) = spatial(site)?;
    let w = &site.input(1)?.shape;
    if w.len() != rank + 2 {
        return Err(format!("weights {w:?} for the input {x:?}"));
    }
    let group = site.int("group").unwrap_or(1).max(1) as u64;
    if x[1] != w[1].saturating_mul(group) {
        return Err(format!("{} channels enter, the weights take {} × {group}", x[1], w[1]));
    }
    let kernel: Vec<i64> = w[2..].iter().map(|k| (*k).min(1 << 31) as i64).collect();
    Ok([x[0], w[0]].into_iter().chain(windows(site, &kernel, false)?).collect())
}

fn grown(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let (x, rank) = spatial(site)?;
    let w = &site.input(1)?.shape;
    let group = site.int("group").unwrap_or(1).max(1) as u64;
    if w.len() != rank + 2 || w[0] != x[1] {
        return Err(format!("weights {w:?} for the input {x:?}"));
    }
    let list = |name: &str, none: i64, count: usize| -> Vec<i64> {
        site.ints(name).filter(|ints| ints.len() == count).map_or(vec![none; count], sane)
    };
    let (strides, pads, more) = (list("strides", 1, rank), list("pads", 0, 2 * rank), list("output_padding", 0, rank));
    let extent = |at: usize| -> Result<u64, String> {
        let reach = strides[at].checked_mul((x[at + 2] as i64).saturating_sub(1));
        let reach = reach.and_then(|reach| reach.checked_add(w[at + 2].min(1 << 31) as i64 + more[at]));
        let reach = reach.map(|reach| reach - pads[at] - pads[at + rank]).filter(|reach| *reach > 0);
        reach.map(|reach| reach as u64).ok_or_else(|| format!("strides {strides:?} and pads {pads:?} on {x:?}"))
    };
    let extents: Vec<u64> = (0..rank).map(extent).collect::<Result<_, _>>()?;
    Ok([x[0], w[1].saturating_mul(group)].into_iter().chain(extents).collect())
}

fn pooled(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let kernel = sane(site.ints("kernel_shape").ok_or("no kernel_shape")?);
    let (x, _) = spatial(site)?;
    let round_up = site.int("ceil_mode").unwrap_or(0) != 0;
    Ok([x[0], x[1]].into_iter().chain(windows(site, &kernel, round_up)?).collect())
}

fn reduced(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let x = &site.input(0)?.shape;
    let given = site.ints("axes").map(<[i64]>::to_vec).or_else(|| site.optional(1)?.values.clone());
    let over: Vec<usize> = match given {
        Some(axes) => axes.iter().map(|at| axis(*at, x.len())).collect::<Result<_, _>>()?,
        None => (0..x.len()).collect(),
    };
    let keep = site.int("keepdims").unwrap_or(1) != 0;
    let dims = x.iter().enumerate().filter(|(at, _)| keep || !over.contains(at));
    Ok(dims.map(|(at, dim)| if over.contains(&at) { 1 } else { *dim }).collect())
}

fn gemm(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let (a, b) = (&site.input(0)?.shape, &site.input(1)?.shape);
    if a.len() != 2 || b.len() != 2 {
        return Err(format!("expected two matrices, found {a:?} and {b:?}"));
    }
    let turned = |name: &str| site.int(name).unwrap_or(0) != 0;
    let (rows, inner) = if turned("transA") { (a[1], a[0]) } else { (a[0], a[1]) };
    let (taken, columns) = if turned("transB") { (b[1], b[0]) } else { (b[0], b[1]) };
    if inner != taken {
        return Err(format!("{inner} columns times {taken} rows"));
    }
    Ok(vec![rows, columns])
}

fn product(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let (a, b) = (&site.input(0)?.shape, &site.input(1)?.shape);
    if a.len() < 2 || b.len() < 2 || a[a.len() - 1] != b[b.len() - 2] {
        return Err(format!("a product of {a:?} and {b:?}"));
    }
    let mut shape = broadcast(&a[..a.len() - 2], &b[..b.len() - 2])?;
    shape.extend([a[a.len() - 2], b[b.len() - 1]]);
    Ok(shape)
}

fn recurrent(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let (x, r) = (&site.input(0)?.shape, &site.input(2)?.shape);
    if x.len() != 3 || r.len() != 3 {
        return Err(format!("expected three dimensions, found {x:?} and weights {r:?}"));
    }
    let (directions, hidden) = (r[0], r[2]);
    let last = vec![directions, x[1], hidden];
    let shapes = [vec![x[0], directions, x[1], hidden], last.clone(), last];
    Ok(shapes.into_iter().map(|shape| Flow { shape, ..Flow::default() }).collect())
}

/// The shape that both take.
fn broadcast(a: &[u64], b: &[u64]) -> Result<Vec<u64>, String> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[u64], at: usize| (at + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let both = |at: usize| match (dim(a, at), dim(b, at)) {
        (x, y) if x == y => Ok(x),
        (1, y) => Ok(y),
        (x, 1) => Ok(x),
        _ => Err(format!("the shapes {a:?} and {b:?} do not go together")),
    };
    (0..rank).map(both).collect()
}

fn arithmetic(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let (a, b) = (site.input(0)?, site.input(1)?);
    let shape = broadcast(&a.shape, &b.shape)?;
    let values = a.values.as_ref().zip(b.values.as_ref()).and_then(|(a, b)| {
        let at = |list: &[i64], at: usize| list.get(if list.len() == 1 { 0 } else { at }).copied();
        let one = |i: usize| {
            let (x, y) = (at(a, i)?, at(b, i)?);
            match site.node.op_type.as_str() {
                "Add" => x.checked_add(y),
                "Sub" => x.checked_sub(y),
                "Mul" => x.checked_mul(y),
                "Div" => x.checked_div(y),
                _ => None,
            }
        };
        (0..a.len().max(b.len())).map(one).collect::<Option<Vec<i64>>>()
    });
    Ok(vec![Flow { shape, values, ..Flow::default() }])
}

fn concatenated(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let first = &site.input(0)?.shape;
    let axis = axis(site.int("axis").ok_or("no axis")?, first.len())?;
    let mut shape = first.clone();
    for other in &site.inputs[1..] {
        let same = |at: usize| at == axis || other.shape[at] == first[at];
        if other.shape.len() != first.len() || !(0..first.len()).all(same) {
            return Err(format!("the shapes {first:?} and {:?} do not go together", other.shape));
        }
        shape[axis] += other.shape[axis];
    }
    let values: Option<Vec<Vec<i64>>> = site.inputs.iter().map(|flow| flow.values.clone()).collect();
    Ok(vec![Flow { shape, values: values.map(|lists| lists.concat()), ..Flow::default() }])
}

fn reshaped(site: &Site<'_>) -> Result<Vec<u64>, String> {
    let x = site.input(0)?;
    let wanted = site.input(1)?.values.clone().ok_or("its shape is not known beforehand")?;
    let mut shape: Vec<u64> = Vec::new();
    for (at, dim) in wanted.iter().enumerate() {
        shape.push(match dim {
            0 => *x.shape.get(at).ok_or(format!("dimension {at} of {:?} is to stay", x.shape))?,
            -1 => 1,
            dim => u64::try_from(*dim).map_err(|_| format!("a dimension of {dim}"))?,
        });
    }
    let (have, others) = (count(&x.shape), count(&shape));
    if let Some(open) = wanted.iter().position(|dim| *dim == -1) {
        shape[open] = have.checked_div(others).unwrap_or(0);
    }
    if count(&shape) != have {
        return Err(format!("{:?} can't become {wanted:?}", x.shape));
    }
    Ok(shape)
}

fn sliced(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let x = site.input(0)?;
    let list =
        |name: &str, at: usize| site.ints(name).map(<[i64]>::to_vec).or_else(|| site.optional(at)?.values.clone());
    let starts = list("starts", 1).ok_or("its starts are not known beforehand")?;
    let ends = list("ends", 2).ok_or("its ends are not known beforehand")?;
    let axes = list("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list("steps", 4).unwrap_or_else(|| vec![1; starts.len()]);
    let mut shape = x.shape.clone();
    let mut values = x.values.clone();
    for (at, start) in starts.iter().enumerate() {
        let (Some(end), Some(on), Some(step)) = (ends.get(at), axes.get(at), steps.get(at)) else {
            return Err(format!("{} starts, {} ends", starts.len(), ends.len()));
        };
        let on = axis(*on, shape.len())?;
        let extent = shape[on] as i64;
        let bound = |i: i64| (if i < 0 { i.saturating_add(extent) } else { i }).clamp(0, extent);
        let (from, to) = (bound(*start), bound(*end));
        if *step < 1 {
            return Err(format!("a step of {step}"));
        }
        let count = (to - from).max(0).div_euclid(*step) + i64::from((to - from).max(0).rem_euclid(*step) > 0);
        shape[on] = count as u64;
        values = values.filter(|_| x.shape.len() == 1).map(|values| {
            values.into_iter().skip(from as usize).step_by(*step as usize).take(count as usize).collect()
        });
    }
    Ok(vec![Flow { shape, values, ..Flow::default() }])
}

fn split(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let x = &site.input(0)?.shape;
    let on = axis(site.int("axis").unwrap_or(0), x.len())?;
    let given = site.ints("split").map(<[i64]>::to_vec).or_else(|| site.optional(1)?.values.clone());
    let count = site.node.output.len().max(1) as i64;
    let equal = || {
        let part = (x[on] as i64 + count - 1) / count;
        (0..count).map(|at| part.min(x[on] as i64 - at * part).max(0)).collect()
    };
    let parts: Vec<i64> = given.map_or_else(equal, |parts| sane(&parts));
    if parts.iter().sum::<i64>() != x[on] as i64 {
        return Err(format!("{} into {parts:?}", x[on]));
    }
    let part = |extent: i64| {
        let mut shape = x.clone();
        shape[on] = extent.max(0) as u64;
        Flow { shape, ..Flow::default() }
    };
    Ok(parts.into_iter().map(part).collect())
}

fn gathered(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let (x, indices) = (site.input(0)?, site.input(1)?);
    let on = axis(site.int("axis").unwrap_or(0), x.shape.len())?;
    let shape: Vec<u64> =
        x.shape[..on].iter().chain(&indices.shape).chain(x.shape.get(on + 1..).unwrap_or(&[])).copied().collect();
    let pick = |at: &i64| {
        let list = x.values.as_ref()?;
        let at = if *at < 0 { at.saturating_add(list.len() as i64) } else { *at };
        list.get(usize::try_from(at).ok()?).copied()
    };
    let values = indices.values.as_ref().and_then(|at| at.iter().map(pick).collect());
    Ok(vec![Flow { shape, values, ..Flow::default() }])
}

fn squeezed(site: &Site<'_>) -> Result<Vec<Flow>, String> {
    let x = site.input(0)?;
    let axes = site.ints("axes").map(<[i64]>::to_vec).or_else(|| site.optional(1)?.values.clone());
    let mut shape = x.shape.clone();
    if site.node.op_type == "Squeeze" {
        let gone: Vec<usize> = match axes {
            Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Result<_, _>>()?,
            None => (0..shape.len()).filter(|at| shape[*at] == 1).collect(),
        };
        shape = shape.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, dim)| *dim).collect();
    } else {
        let axes = axes.ok_or("its axes are not known beforehand")?;
        let rank = shape.len() + axes.len();
        let mut at: Vec<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Result<_, _>>()?;
        at.sort_unstable();
        at.into_iter().for_each(|at| shape.insert(at, 1));
    }
    Ok(vec![Flow { shape, values: x.values.clone(), ..Flow::default() }])
}
