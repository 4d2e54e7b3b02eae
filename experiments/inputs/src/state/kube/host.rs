//! CPU cores and memory that pods ask for beside GPUs.

use std::ops::AddAssign;

use serde_json::Value;

use super::objects::{list, quantity};

/// What a pod, or several, ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Asked {
    cpus: f64,
    bytes: f64,
}

impl Asked {
    /// Of anything with a `spec` of a pod: what its containers request, or are limited to where they request nothing.
    pub(super) fn of(pod: &Value) -> Result<Asked, String> {
        let mut all = Asked::default();
        for container in list(pod, &["spec", "containers"]) {
            let asks = |part: &str, what: &str| container.get("resources")?.get(part)?.get(what);
            let of = |what: &str| match asks("requests", what).or_else(|| asks("limits", what)) {
                Some(value) => quantity(value).map_err(|why| format!("{what}: {why}")),
                None => Ok(0.0),
            };
            all += Asked { cpus: of("cpu")?, bytes: of("memory")? };
        }
        Ok(all)
    }

    /// That of so many pods.
    pub(super) fn times(self, count: u32) -> Asked {
        Asked { cpus: self.cpus * f64::from(count), bytes: self.bytes * f64::from(count) }
    }

    /// Cores, to the thousandth; none: it asks for none.
    pub(super) fn cpus(self) -> Option<f64> {
        Some(libm::round(self.cpus * 1000.0) / 1000.0).filter(|cpus| *cpus > 0.0)
    }

    /// MiB, rounded up; none: it asks for none.
    pub(super) fn mib(self) -> Option<f64> {
        Some(libm::ceil(self.bytes / f64::from(1 << 20))).filter(|mib| *mib > 0.0)
    }

    /// Whole cores and MiB of these that are left without others'.
    pub(super) fn left_of(self, cpus: Option<f64>, bytes: Option<f64>) -> (Option<u32>, Option<u64>) {
        let mib = bytes.map(|bytes| (bytes - self.bytes).max(0.0) / f64::from(1 << 20));
        (cpus.map(|cpus| (cpus - self.cpus).max(0.0) as u32), mib.map(|mib| mib as u64))
    }
}

impl AddAssign for Asked {
    fn add_assign(&mut self, other: Asked) {
        *self = Asked { cpus: self.cpus + other.cpus, bytes: self.bytes + other.bytes };
    }
}
