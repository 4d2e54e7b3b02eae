//! CPU and memory of Slurm's nodes and jobs, as far as it gives jobs their own.

use super::text::{Text, gpus};
use super::{configured, list, whole};

/// Most CPUs of a job.
const MOST_CPUS: u64 = 1_000_000_000;

/// What of CPU and memory a cluster gives to jobs as their own.
pub(super) struct Counted {
    /// Whether CPUs; none: the configuration does not say.
    pub(super) cpus: Option<bool>,
    pub(super) memory: bool,
    /// CPUs of a core, where jobs get whole cores.
    pub(super) threads: u64,
}

impl Counted {
    /// By the configuration and the nodes.
    pub(super) fn of(config: &str, nodes: &[Text<'_>]) -> Counted {
        let said = |key: &str| configured(config, key).map(str::to_ascii_uppercase);
        let Some(parameters) = said("SelectTypeParameters") else {
            return Counted { cpus: None, memory: false, threads: 1 };
        };
        let words = list(Some(&parameters));
        // The option of a core or another, with memory or without.
        let by = |names: &[&str]| words.iter().any(|word| names.contains(&word.trim_end_matches("_MEMORY")));
        let nodes_are_whole = said("SelectType").is_some_and(|kind| kind.ends_with("LINEAR"));
        // Where a node has no more CPUs than cores, each is a core.
        let threads = |node: &Text<'_>| {
            let of = |key: &str| whole(node, key).ok().flatten();
            let cores = of("Sockets")?.checked_mul(of("CoresPerSocket")?).filter(|cores| *cores > 0)?;
            Some((of("CPUTot")? / cores).max(1).min(of("ThreadsPerCore")?.max(1)))
        };
        let in_cores = by(&["CR_CORE", "CR_SOCKET"]);
        Counted {
            cpus: Some(!nodes_are_whole && (in_cores || by(&["CR_CPU"]))),
            memory: words.iter().any(|word| word.ends_with("MEMORY")),
            threads: if in_cores { nodes.iter().filter_map(threads).min().unwrap_or(1) } else { 1 },
        }
    }

    /// The CPUs that a job holds, or will: where its GPUs bring some, what it asks for without them is only the least; and it gets whole cores of
    /// each of its nodes.
    pub(super) fn cpus(
        &self,
        of: &Text<'_>,
        (runs, gpus_of_job, nodes): (bool, u64, u32),
    ) -> Result<Option<f64>, String> {
        let Some(text) = of.get("NumCPUs") else { return Ok(None) };
        // Of `2-4` the fewest.
        let fewest = text.split_once('-').map_or(text, |(fewest, _)| fewest);
        let wrong = || format!("NumCPUs: expected a number, found {text:?}");
        let told: u64 = fewest.parse().ok().filter(|told| *told <= MOST_CPUS).ok_or_else(wrong)?;
        if runs {
            return Ok(Some(told as f64));
        }
        let of_each: u64 = gpus(of.get("CpusPerTres").unwrap_or(""))?.iter().map(|gpu| u64::from(gpu.count)).sum();
        let asked = told.max(of_each.saturating_mul(gpus_of_job)).min(MOST_CPUS);
        let nodes = u64::from(nodes.max(1));
        // Where no whole core is cut there is none to round up to.
        let of_node = asked.div_ceil(nodes).checked_next_multiple_of(self.threads).unwrap_or(asked);
        Ok(Some(if self.threads > 1 { of_node.saturating_mul(nodes) } else { asked } as f64))
    }

    /// The memory that a job holds, or will, MiB; none: it is not counted, or not said. While a job waits `TRES` has what it asks for of nodes, and else may have
    /// that of a whole node, whatever its GPUs or CPUs bring.
    pub(super) fn memory(
        &self,
        of: &Text<'_>,
        (runs, gpus_of_job): (bool, u64),
        cpus: Option<f64>,
    ) -> Result<Option<f64>, String> {
        if !self.memory {
            return Ok(None);
        }
        let said = |key: &str| of.get(key).filter(|_| !runs).map(|text| mib(key, text)).transpose();
        if said("MinMemoryNode")?.unwrap_or(0.0) == 0.0 {
            let of_gpu = of.get("MemPerTres").filter(|_| !runs).and_then(|text| text.rsplit_once("gpu:"));
            let of_gpu = of_gpu.map(|(_, text)| mib("MemPerTres", text)).transpose()?.unwrap_or(0.0);
            let brought = match (of_gpu, said("MinMemoryCPU")?, cpus) {
                (0.0, Some(of_cpu), Some(cpus)) => of_cpu * cpus,
                (0.0, ..) => 0.0,
                (of_gpu, ..) => of_gpu * gpus_of_job as f64,
            };
            if brought > 0.0 {
                return Ok(Some(brought));
            }
        }
        for key in ["AllocTRES", "ReqTRES", "TRES"] {
            let told =
                of.get(key).into_iter().flat_map(|text| text.split(',')).find_map(|word| word.strip_prefix("mem="));
            if let Some(text) = told {
                return Ok(Some(mib(key, text)?).filter(|mib| *mib > 0.0));
            }
        }
        Ok(None)
    }
}

/// The CPUs of a node that jobs may have.
pub(super) fn cpus_of_node(node: &Text<'_>) -> Result<Option<u64>, String> {
    Ok(whole(node, "CPUEfctv")?.or(whole(node, "CPUTot")?))
}

/// The memory of a node that jobs may have, MiB.
pub(super) fn memory_of_node(node: &Text<'_>) -> Result<Option<u64>, String> {
    let kept = whole(node, "MemSpecLimit")?.unwrap_or(0);
    // None at all would be as if it were not known.
    Ok(whole(node, "RealMemory")?.map(|mib| mib.saturating_sub(kept).max(1)))
}

/// `1000M`, `62.50G`: MiB where there is no unit.
fn mib(key: &str, text: &str) -> Result<f64, String> {
    let units =
        [('K', 1.0 / 1024.0), ('M', 1.0), ('G', 1024.0), ('T', 1024.0 * 1024.0), ('P', 1024.0 * 1024.0 * 1024.0)];
    let unit = text.chars().last().and_then(|last| units.iter().find(|(unit, _)| *unit == last));
    let number = unit.map_or(text, |_| &text[..text.len() - 1]);
    let value: Option<f64> = number.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let value = value.ok_or_else(|| format!("{key}: expected memory as 1000M, found {text:?}"))?;
    Ok(value * unit.map_or(1.0, |(_, factor)| *factor))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::text::records;
    use super::*;

    const KEYS: [&str; 12] = [
        "JobId",
        "NumCPUs",
        "TRES",
        "CpusPerTres",
        "MinMemoryCPU",
        "MinMemoryNode",
        "MemPerTres",
        "NodeName",
        "ThreadsPerCore",
        "CPUTot",
        "Sockets",
        "CoresPerSocket",
    ];
    /// A node of eight cores of two threads.
    const NODE: &str = "NodeName=n0 CPUTot=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2";

    /// CPUs and memory of a job that waits.
    fn waiting(config: &str, node: &str, job: &str, (gpus, nodes): (u64, u32)) -> (Option<f64>, Option<f64>) {
        let read = |text: String, first: &str| {
            let text: &'static str = Box::leak(text.into_boxed_str());
            records(text, first, &KEYS, &mut BTreeMap::new())
        };
        let counted = Counted::of(config, &read(node.into(), "NodeName"));
        let job = &read(format!("JobId=1 {job}"), "JobId")[0];
        let cpus = counted.cpus(job, (false, gpus, nodes)).expect("CPUs");
        (cpus, counted.memory(job, (false, gpus), cpus).expect("memory"))
    }

    #[test]
    fn what_waiting_jobs_will_hold_is_what_a_real_slurm_gave_them() {
        // Slurm 22.05 with CR_CORE_MEMORY, cores of two threads: what was told while the jobs waited, and what they were given.
        let config = "SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\n";
        let of = |job: &str, gpus, nodes| waiting(config, NODE, job, (gpus, nodes));
        let given = |cpus: f64, mib: f64| (Some(cpus), Some(mib));
        assert_eq!(of("NumCPUs=1 TRES=cpu=1,mem=500M,node=1 MinMemoryCPU=500M", 1, 1), given(2.0, 1000.0));
        assert_eq!(of("NumCPUs=6 TRES=cpu=6,mem=3000M,node=2 MinMemoryCPU=500M", 2, 2), given(8.0, 4000.0));
        let with_gpus =
            "NumCPUs=1 TRES=cpu=1,mem=200M MinMemoryCPU=500M CpusPerTres=gres:gpu:3 MemPerTres=gres:gpu:100";
        assert_eq!(of(with_gpus, 2, 1), given(6.0, 200.0));
        assert_eq!(of("NumCPUs=6 TRES=cpu=6,mem=700M,node=1", 2, 1), given(6.0, 700.0));
        assert_eq!(of("NumCPUs=1 TRES=cpu=1,mem=2000M,node=1", 1, 1), given(2.0, 2000.0));
        // By a partition's defaults of 3 CPUs and 700 MiB a GPU.
        let defaults = "NumCPUs=1 TRES=cpu=1,mem=16000M,node=1 MinMemoryNode=0 CpusPerTres=gpu:3 MemPerTres=gpu:700";
        assert_eq!((of(defaults, 2, 1), of(defaults, 1, 1)), (given(6.0, 1400.0), given(4.0, 700.0)));
        let own = "NumCPUs=1 TRES=cpu=1,mem=1000M,node=1 MinMemoryNode=1000M CpusPerTres=gpu:3 MemPerTres=gpu:700";
        assert_eq!(
            (of(own, 1, 1).1, of("NumCPUs=5 TRES=mem=16000M MinMemoryNode=0 MemPerTres=gpu:700", 1, 1).1),
            (Some(1000.0), Some(700.0))
        );
        // Where memory is not counted, and where threads are given one by one.
        let threads = "SelectType = select/cons_tres\nSelectTypeParameters = CR_CPU\n";
        assert_eq!(waiting(threads, NODE, "NumCPUs=1 TRES=cpu=1,mem=500M", (1, 1)), (Some(1.0), None));
        // A node whose CPUs are cores; an option that has a core in its name; memory that is none by CPU.
        let cores = NODE.replace("CPUTot=16", "CPUTot=8");
        assert_eq!(waiting(config, &cores, "NumCPUs=3 TRES=mem=3G MinMemoryCPU=1G", (1, 1)), given(3.0, 3072.0));
        let other = "SelectTypeParameters = CR_CPU_MEMORY,CR_CORE_DEFAULT_DIST_BLOCK\n";
        assert_eq!(waiting(other, NODE, "NumCPUs=3 TRES=mem=64000M MinMemoryCPU=0", (1, 1)), given(3.0, 64_000.0));
    }

    #[test]
    fn what_is_counted_is_what_the_configuration_says() {
        let of = |config: &str| {
            let counted = Counted::of(config, &[]);
            (counted.cpus, counted.memory)
        };
        assert_eq!(of(""), (None, false));
        assert_eq!(of("SelectType = select/linear\nSelectTypeParameters = CR_MEMORY\n"), (Some(false), true));
        assert_eq!(of("SelectTypeParameters = CR_CORE_MEMORY,CR_ONE_TASK_PER_CORE\n"), (Some(true), true));
        assert_eq!([mib("TRES", "62.50G"), mib("TRES", "12")], [Ok(64_000.0), Ok(12.0)]);
        assert_eq!(mib("TRES", "much"), Err("TRES: expected memory as 1000M, found \"much\"".into()));
    }
}
