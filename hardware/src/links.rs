//! How GPUs are connected.

use serde::Serialize;

use crate::{Fleet, FleetError};

/// How the GPUs of a node are connected, and nodes with each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Links {
    /// GB/s between the GPUs of a node, row by row; every node has this many GPUs squared.
    pub within: Vec<f64>,
    /// GB/s between nodes.
    pub network: f64,
}

impl Links {
    /// Pairs (0,1), (2,3), … by NVLink at 40 GB/s, all else at 10 GB/s. Plausible, not measured (reconstruction).
    pub fn nvlink_pairs(gpus: u32) -> Vec<f64> {
        Links::within(gpus, |a, b| if a / 2 == b / 2 { 40.0 } else { 10.0 })
    }

    /// PCIe: 12 GB/s under one switch (pairs), 10 within a socket (half of the node), 6 across. Plausible, not
    /// measured (reconstruction).
    pub fn pcie(gpus: u32) -> Vec<f64> {
        Links::within(gpus, |a, b| match (a / 2 == b / 2, a * 2 / gpus.max(1) == b * 2 / gpus.max(1)) {
            (true, _) => 12.0,
            (_, true) => 10.0,
            _ => 6.0,
        })
    }

    fn within(gpus: u32, link: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        let pairs = (0..gpus).flat_map(|a| (0..gpus).map(move |b| (a, b)));
        pairs.map(|(a, b)| if a == b { 0.0 } else { link(a, b) }).collect()
    }
}

impl Fleet {
    /// The same fleet with links.
    ///
    /// # Errors
    /// A matrix of another size than a node, or with a link that is none.
    pub fn linked(mut self, links: Links) -> Result<Fleet, FleetError> {
        for node in &self.nodes {
            let size = node.gpus as usize;
            if links.within.len() != size * size {
                let found = (links.within.len() as f64).sqrt() as usize;
                return Err(FleetError::LinkSize { found, expected: node.gpus });
            }
            for (a, b) in (0..size).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let found = links.within[a * size + b];
                if !(found > 0.0 && found.is_finite()) || links.within[b * size + a] != found {
                    return Err(FleetError::Link { a, b, found });
                }
            }
        }
        self.links = Some(links);
        Ok(self)
    }
}
