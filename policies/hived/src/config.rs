//! The file of cells: HiveD's own configuration, as JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cells::{Cell, CellId, Cells, Chain};

/// A virtual cluster.
#[derive(Clone, Debug, Default)]
pub struct VirtualCluster {
    /// Its cells, in the order of the file.
    pub cells: Vec<CellId>,
    /// Its pinned cells, by name.
    pub pinned: BTreeMap<String, CellId>,
}

/// What the file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub cells: Cells,
    pub clusters: BTreeMap<String, VirtualCluster>,
    /// Names of nodes, in the order of the file.
    pub nodes: Vec<String>,
}

/// A kind of cell that is no GPU.
struct Kind {
    child: String,
    number: usize,
    is_node: bool,
}

struct Reader<'a> {
    kinds: BTreeMap<&'a str, Kind>,
    config: Config,
    /// Physical cells of which a virtual cluster may have one pinned.
    pins: BTreeMap<String, CellId>,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(bytes: &[u8]) -> Result<Config, String> {
        let file: Value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
        let physical = &file["physicalCluster"];
        let kinds = physical["cellTypes"].as_object().ok_or("expected `physicalCluster.cellTypes`")?;
        let kind = |(name, of): (&'_ String, &'_ Value)| {
            let child = of["childCellType"].as_str().ok_or_else(|| format!("cell type {name}: no `childCellType`"))?;
            let number = of["childCellNumber"].as_u64().filter(|number| (1..=1024).contains(number));
            let number = number.ok_or_else(|| format!("cell type {name}: expected 1 to 1024 children"))?;
            let is_node = of["isNodeLevel"].as_bool().unwrap_or(false);
            Ok::<_, String>(Kind { child: child.into(), number: number as usize, is_node })
        };
        let all = kinds.iter().map(|of| Ok((of.0.as_str(), kind(of)?))).collect::<Result<_, String>>()?;
        let mut reader = Reader { kinds: all, config: Config::default(), pins: BTreeMap::new() };
        for cell in physical["physicalCells"].as_array().ok_or("expected `physicalCluster.physicalCells`")? {
            reader.add_top(cell)?;
        }
        reader.config.cells.up = vec![true; reader.config.nodes.len()];
        for (name, of) in file["virtualClusters"].as_object().ok_or("expected `virtualClusters`")? {
            reader.add_cluster(name, of)?;
        }
        let roots: Vec<CellId> = reader.config.clusters.values().flat_map(|of| of.cells.clone()).collect();
        match reader.config.cells.begin(&roots) {
            true => Ok(reader.config),
            false => Err("virtual clusters own more cells than there are".into()),
        }
    }
}

impl Config {
    /// The name of each node, the kind of its GPUs and their numbers, ascending.
    pub fn gpus_of_nodes(&self) -> Vec<(String, String, Vec<u32>)> {
        let mut nodes: Vec<(String, String, Vec<u32>)> =
            self.nodes.iter().map(|name| (name.clone(), String::new(), Vec::new())).collect();
        for cell in &self.cells.all {
            if let Some((node, number)) = cell.gpu {
                nodes[node].1.clone_from(&self.cells.chains[cell.chain].kinds[0]);
                nodes[node].2.push(number);
            }
        }
        nodes.iter_mut().for_each(|(.., gpus)| gpus.sort_unstable());
        nodes
    }
}

impl Reader<'_> {
    /// Kinds from a GPU up to this one.
    fn below(&self, name: &str) -> Result<Vec<String>, String> {
        let mut kinds = vec![name.to_string()];
        while let Some(kind) = self.kinds.get(kinds[kinds.len() - 1].as_str()) {
            if kinds.contains(&kind.child) {
                return Err(format!("cell type {name} is below itself"));
            }
            kinds.push(kind.child.clone());
        }
        kinds.reverse();
        Ok(kinds)
    }

    /// The chain that begins at a kind of cell, which is there from now on.
    fn chain(&mut self, name: &str) -> Result<usize, String> {
        if let Some(known) = self.config.cells.chains.iter().position(|chain| chain.name == name) {
            return Ok(known);
        }
        if !self.kinds.contains_key(name) {
            return Err(format!("no cell type {name:?} with children"));
        }
        let kinds = self.below(name)?;
        let is_node = |kind: &String| self.kinds.get(kind.as_str()).is_some_and(|kind| kind.is_node);
        let node_level = kinds.iter().position(is_node).ok_or_else(|| format!("no node level in or below {name}"))? + 1;
        let children = kinds.iter().map(|kind| self.kinds.get(kind.as_str()).map_or(0, |kind| kind.number)).collect();
        Ok(self.config.cells.add_chain(Chain { name: name.into(), kinds, children, node_level }))
    }

    fn add_top(&mut self, cell: &Value) -> Result<(), String> {
        let name = cell["cellType"].as_str().ok_or("a physical cell without `cellType`")?;
        let chain = self.chain(name)?;
        let level = self.config.cells.chains[chain].kinds.len();
        let id = self.add_physical(chain, level, Some(cell), None)?;
        self.config.cells.add_top(id);
        Ok(())
    }

    /// A physical cell and all below it; `node`: its node and how many GPUs of it there are so far.
    fn add_physical(
        &mut self,
        chain: usize,
        level: usize,
        cell: Option<&Value>,
        node: Option<(usize, &mut u32)>,
    ) -> Result<CellId, String> {
        let Chain { kinds, children, node_level, .. } = self.config.cells.chains[chain].clone();
        let address = cell.map_or(&Value::Null, |cell| &cell["cellAddress"]);
        let id = if level == 1 {
            let Some((node, count)) = node else { return Err(format!("chain {}: a GPU on no node", kinds[0])) };
            let number = address.as_u64().map_or(*count, |number| number as u32);
            *count += 1;
            self.config.cells.add(chain, 1, vec![], Some((node, number)))
        } else {
            let number = children[level - 1];
            let given = cell.and_then(|cell| cell["cellChildren"].as_array());
            if given.is_some_and(|given| given.len() != number) {
                return Err(format!(
                    "{}: expected {number} `cellChildren`, found {}",
                    kinds[level - 1],
                    given.map_or(0, Vec::len)
                ));
            }
            let mut own = 0;
            let mut inner = match (level == node_level, node) {
                (true, _) => {
                    let name = address.as_str().map_or_else(|| address.to_string(), str::to_string);
                    self.config.nodes.push(name);
                    Some((self.config.nodes.len() - 1, &mut own))
                }
                (false, outer) => outer,
            };
            let mut children = Vec::new();
            for at in 0..number {
                let of = given.map(|given| &given[at]);
                let node = inner.as_mut().map(|(node, count)| (*node, &mut **count));
                children.push(self.add_physical(chain, level - 1, of, node)?);
            }
            self.config.cells.add(chain, level, children, None)
        };
        if let Some(pin) = cell.and_then(|cell| cell["pinnedCellId"].as_str()) {
            self.pins.insert(pin.into(), id);
        }
        Ok(id)
    }

    fn add_cluster(&mut self, name: &str, of: &Value) -> Result<(), String> {
        let mut cluster = VirtualCluster::default();
        for cell in of["virtualCells"].as_array().into_iter().flatten() {
            let path = cell["cellType"].as_str().ok_or_else(|| format!("virtual cluster {name}: no `cellType`"))?;
            let wrong = || format!("virtual cluster {name}: no physical cell is {path:?}");
            let (top, kind) = (path.split('.').next().unwrap_or(path), path.rsplit('.').next().unwrap_or(path));
            let chains = &self.config.cells.chains;
            let chain = chains.iter().position(|chain| chain.name == top).ok_or_else(wrong)?;
            let level = chains[chain].kinds.iter().position(|known| known == kind).ok_or_else(wrong)? + 1;
            for _ in 0..cell["cellNumber"].as_u64().unwrap_or(1).min(100_000) {
                let id = self.config.cells.add_tree(chain, level, &mut || None);
                cluster.cells.push(id);
            }
        }
        for cell in of["pinnedCells"].as_array().into_iter().flatten() {
            let pin = cell["pinnedCellId"].as_str().unwrap_or_default();
            let physical = self.pins.remove(pin);
            let physical = physical.ok_or_else(|| format!("virtual cluster {name}: no pinned cell {pin:?} is left"))?;
            let Cell { chain, level, .. } = self.config.cells.all[physical];
            let root = self.config.cells.add_tree(chain, level, &mut || None);
            self.config.cells.pin(physical, root);
            cluster.pinned.insert(pin.into(), root);
        }
        self.config.clusters.insert(name.into(), cluster);
        Ok(())
    }
}
