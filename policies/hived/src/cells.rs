//! Cells: the GPUs of a cluster as trees of cells, each of which has as many children of one kind; and those of virtual clusters, of which
//! each is bound to a physical one while jobs use it.

use std::collections::BTreeMap;

use sandtable_policy::JobId;

/// Index of a cell among all, physical and virtual.
pub type CellId = usize;

/// The priority of a GPU that no job has.
pub const FREE: i32 = -2;
/// That of jobs without a guarantee.
pub const OPPORTUNISTIC: i32 = -1;

/// A cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The top kind of its tree.
    pub chain: usize,
    /// 1: a GPU.
    pub level: usize,
    pub parent: Option<CellId>,
    pub children: Vec<CellId>,
    /// Its GPUs, in the order of the tree.
    pub leaves: Vec<CellId>,
    /// Of a physical cell the virtual one that is bound to it, and the other way round.
    pub peer: Option<CellId>,
    /// Its virtual cluster holds it for good.
    pub pinned: bool,
    /// Of a physical GPU: its node and its number there.
    pub gpu: Option<(usize, u32)>,
    /// Of a GPU: that of the job that has it.
    pub priority: i32,
    /// Of a physical GPU: the job that has it.
    pub job: Option<JobId>,
}

/// A chain: a kind of cell at the top, and the kinds below it.
#[derive(Clone, Debug)]
pub struct Chain {
    pub name: String,
    /// Kinds by level, from 1.
    pub kinds: Vec<String>,
    /// Children of a cell by level, from 1: a GPU has none.
    pub children: Vec<usize>,
    /// The level of nodes.
    pub node_level: usize,
}

impl Chain {
    /// GPUs of a cell of each level, from 1.
    pub fn sizes(&self) -> Vec<u32> {
        let mut size = 1;
        let of = |children: &usize| {
            size *= (*children).max(1) as u32;
            size
        };
        self.children.iter().map(of).collect()
    }
}

/// All cells.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    pub chains: Vec<Chain>,
    pub all: Vec<Cell>,
    /// Physical cells that no virtual cluster has, by chain and level.
    free: Vec<Vec<Vec<CellId>>>,
    /// Physical cells at the top, by chain.
    pub tops: Vec<Vec<CellId>>,
    /// Whether each node is up.
    pub up: Vec<bool>,
}

impl Cells {
    /// Adds a chain; its number.
    pub fn add_chain(&mut self, chain: Chain) -> usize {
        self.free.push(vec![Vec::new(); chain.kinds.len() + 1]);
        self.tops.push(Vec::new());
        self.chains.push(chain);
        self.chains.len() - 1
    }

    /// Adds a cell whose children are there.
    pub fn add(&mut self, chain: usize, level: usize, children: Vec<CellId>, gpu: Option<(usize, u32)>) -> CellId {
        let id = self.all.len();
        let leaves = match level {
            1 => vec![id],
            _ => children.iter().flat_map(|child| self.all[*child].leaves.clone()).collect(),
        };
        children.iter().for_each(|child| self.all[*child].parent = Some(id));
        let (parent, peer, pinned, job) = (None, None, false, None);
        self.all.push(Cell { chain, level, parent, children, leaves, peer, pinned, gpu, priority: FREE, job });
        id
    }

    /// Adds a cell and all below it; `gpu` says which physical GPU each of its GPUs is, none of a virtual cell.
    pub fn add_tree(&mut self, chain: usize, level: usize, gpu: &mut impl FnMut() -> Option<(usize, u32)>) -> CellId {
        let number = self.chains[chain].children[level - 1];
        let children = (0..number).map(|_| self.add_tree(chain, level - 1, gpu)).collect();
        let gpu = if level == 1 { gpu() } else { None };
        self.add(chain, level, children, gpu)
    }

    /// A physical cell at the top is there, and free.
    pub fn add_top(&mut self, id: CellId) {
        let Cell { chain, level, .. } = self.all[id];
        self.tops[chain].push(id);
        self.free[chain][level].push(id);
    }

    /// Takes a physical cell for a virtual one for good.
    pub fn pin(&mut self, physical: CellId, virtual_cell: CellId) {
        let mut path = vec![physical];
        while let Some(parent) = self.all[path[path.len() - 1]].parent {
            path.push(parent);
        }
        // Split from the first that is free downwards.
        for at in (0..path.len()).rev() {
            let Cell { chain, level, .. } = self.all[path[at]];
            if !self.free[chain][level].contains(&path[at]) {
                continue;
            }
            remove(&mut self.free[chain][level], path[at]);
            if at > 0 {
                let children = self.all[path[at]].children.clone();
                self.free[chain][level - 1].extend(children);
            }
        }
        self.bind(virtual_cell, physical);
        self.all[virtual_cell].pinned = true;
    }

    fn bind(&mut self, one: CellId, other: CellId) {
        (self.all[one].peer, self.all[other].peer) = (Some(other), Some(one));
    }

    /// Whether jobs may start on a physical cell: a node of it is up.
    fn usable(&self, physical: CellId) -> bool {
        self.all[physical].leaves.iter().any(|leaf| self.all[*leaf].gpu.is_some_and(|(node, _)| self.up[node]))
    }

    /// The GPUs of a cell whose priority is `of`.
    pub fn count(&self, cell: CellId, of: impl Fn(i32) -> bool) -> usize {
        self.all[cell].leaves.iter().filter(|leaf| of(self.all[**leaf].priority)).count()
    }

    /// Of these physical cells the one that has the fewest GPUs of jobs without a guarantee, the first among equals.
    fn quietest(&self, cells: &[CellId]) -> Option<CellId> {
        let usable = cells.iter().copied().filter(|cell| self.usable(*cell));
        usable.min_by_key(|cell| self.count(*cell, |priority| priority == OPPORTUNISTIC))
    }

    /// Takes the smallest free physical cell that holds one of this level, and splits it down to that.
    fn allocate(&mut self, chain: usize, level: usize) -> Option<CellId> {
        let top = self.chains[chain].kinds.len();
        let found = (level..=top).find_map(|at| self.quietest(&self.free[chain][at]).map(|cell| (at, cell)));
        let (mut at, mut cell) = found?;
        remove(&mut self.free[chain][at], cell);
        while at > level {
            at -= 1;
            let children = self.all[cell].children.clone();
            self.free[chain][at].extend(&children);
            cell = self.quietest(&children).unwrap_or(children[0]);
            remove(&mut self.free[chain][at], cell);
        }
        Some(cell)
    }

    /// A physical cell is free again, and its parent where all of its children are.
    fn release(&mut self, cell: CellId) {
        let Cell { chain, level, parent, .. } = self.all[cell];
        self.free[chain][level].push(cell);
        let Some(parent) = parent else { return };
        let siblings = self.all[parent].children.clone();
        if siblings.iter().all(|sibling| self.free[chain][level].contains(sibling)) {
            siblings.iter().for_each(|sibling| remove(&mut self.free[chain][level], *sibling));
            self.release(parent);
        }
    }

    /// Each of these virtual cells has a physical one once, and gives it back: so do HiveD's free cells begin, whose virtual clusters hold those of
    /// nodes that are not up yet. Whether there are enough.
    pub fn begin(&mut self, roots: &[CellId]) -> bool {
        let mut roots: Vec<CellId> = roots.iter().copied().filter(|root| !self.all[*root].pinned).collect();
        roots.sort_by_key(|root| std::cmp::Reverse(self.all[*root].level));
        let taken: Vec<CellId> =
            roots.iter().filter_map(|root| self.allocate(self.all[*root].chain, self.all[*root].level)).collect();
        let enough = taken.len() == roots.len();
        taken.into_iter().for_each(|cell| self.release(cell));
        enough
    }

    /// Binds a virtual GPU to a physical one, and all cells above it that are not bound yet; whether there is room for it.
    pub fn bind_leaf(&mut self, leaf: CellId) -> bool {
        let mut path = vec![leaf];
        while let (None, Some(parent)) = (self.all[path[path.len() - 1]].peer, self.all[path[path.len() - 1]].parent) {
            path.push(parent);
        }
        let root = path[path.len() - 1];
        if self.all[root].peer.is_none() {
            let Some(cell) = self.allocate(self.all[root].chain, self.all[root].level) else { return false };
            self.bind(root, cell);
        }
        for at in (0..path.len() - 1).rev() {
            let Some(above) = self.all[path[at + 1]].peer else { return false };
            let children: Vec<CellId> =
                self.all[above].children.iter().copied().filter(|child| self.all[*child].peer.is_none()).collect();
            let Some(child) = self.quietest(&children) else { return false };
            self.bind(path[at], child);
        }
        true
    }

    /// A virtual GPU is free: what is bound above it for no other is unbound.
    pub fn unbind_leaf(&mut self, leaf: CellId) {
        self.all[leaf].priority = FREE;
        let mut cell = leaf;
        loop {
            let Cell { peer, parent, pinned, ref children, .. } = self.all[cell];
            let used = self.count(cell, |priority| priority > FREE) > 0
                || children.iter().any(|child| self.all[*child].peer.is_some());
            let Some(physical) = peer.filter(|_| !used && !pinned) else { return };
            (self.all[cell].peer, self.all[physical].peer) = (None, None);
            match parent {
                Some(parent) => cell = parent,
                None => return self.release(physical),
            }
        }
    }
}

/// Takes an item out of a list, whose last takes its place.
fn remove(list: &mut Vec<CellId>, item: CellId) {
    if let Some(at) = list.iter().position(|other| *other == item) {
        list.swap_remove(at);
    }
}

/// The GPUs of each pod of a placement.
pub type Placement = Vec<Vec<CellId>>;

impl Cells {
    /// The nodes of a view: cells of the level of nodes, or below where there are none above them; each once.
    pub fn nodes(&self, roots: &[CellId]) -> Vec<CellId> {
        let mut by_level: BTreeMap<usize, Vec<CellId>> = BTreeMap::new();
        let mut open: Vec<CellId> = roots.to_vec();
        while !open.is_empty() {
            let mut next = Vec::new();
            for cell in open {
                let Cell { chain, level, ref children, .. } = self.all[cell];
                match level > self.chains[chain].node_level {
                    true => next.extend(children),
                    false => by_level.entry(level).or_default().push(cell),
                }
            }
            open = next;
        }
        by_level.into_values().rev().flatten().collect()
    }

    /// Whether pods fit nodes that nothing uses.
    pub fn would_fit(&self, nodes: &[CellId], pods: &[u32]) -> bool {
        let mut pods = pods.to_vec();
        pods.sort_unstable();
        let mut at = 0;
        for node in nodes {
            let mut room = self.all[*node].leaves.len() as u32;
            while at < pods.len() && pods[at] <= room {
                room -= pods[at];
                at += 1;
            }
        }
        at == pods.len()
    }

    /// Places pods, from small to large, on the fewest nodes: first beside nothing but free GPUs, then in place of jobs of lower priority.
    pub fn pack(&self, nodes: &[CellId], pods: &[u32], priority: i32, across: bool) -> Option<Placement> {
        let up = |node: &CellId| {
            let physical = if self.all[*node].gpu_of(self).is_some() { Some(*node) } else { self.all[*node].peer };
            physical.is_none_or(|cell| self.usable(cell))
        };
        let nodes: Vec<CellId> = nodes.iter().copied().filter(up).collect();
        let mut pods = pods.to_vec();
        pods.sort_unstable();
        let at = |priority: i32| {
            let chosen = self.choose(&nodes, &pods, priority, across)?;
            let mut taken: Vec<CellId> = Vec::new();
            let mut placement = Vec::new();
            for (node, gpus) in chosen.into_iter().zip(&pods) {
                let leaves = self.nearest(node, *gpus as usize, priority, &taken)?;
                taken.extend(&leaves);
                placement.push(leaves);
            }
            Some(placement)
        };
        at(OPPORTUNISTIC).or_else(|| if priority > OPPORTUNISTIC { at(priority) } else { None })
    }

    /// A node for each pod: those in use first, by jobs of any priority (`across`) or of this one and then the fewest of higher ones.
    fn choose(&self, nodes: &[CellId], pods: &[u32], priority: i32, across: bool) -> Option<Vec<CellId>> {
        let key = |node: &CellId| {
            let same = self.count(*node, |of| if across { of > FREE } else { of == priority });
            let higher = if across { 0 } else { self.count(*node, |of| of > priority) };
            (std::cmp::Reverse(same), higher)
        };
        let mut sorted = nodes.to_vec();
        sorted.sort_by_cached_key(key);
        let mut chosen = Vec::new();
        for node in sorted {
            let room = self.count(node, |of| of < priority);
            let mut picked = 0;
            while chosen.len() < pods.len() && room.saturating_sub(picked) >= pods[chosen.len()] as usize {
                picked += pods[chosen.len()] as usize;
                chosen.push(node);
            }
        }
        (chosen.len() == pods.len()).then_some(chosen)
    }

    /// GPUs of a node that are near each other: of the lowest cell that has enough, free ones first.
    fn nearest(&self, node: CellId, gpus: usize, priority: i32, taken: &[CellId]) -> Option<Vec<CellId>> {
        let open = |leaf: &&CellId| !taken.contains(leaf) && self.all[**leaf].priority < priority;
        let available = |cell: CellId| {
            let mut all: Vec<CellId> = self.all[cell].leaves.iter().filter(open).copied().collect();
            all.sort_by_key(|leaf| self.all[*leaf].priority);
            all
        };
        let mut level = vec![node];
        let mut best = None;
        while !level.is_empty() {
            let found = level.iter().map(|cell| available(*cell)).find(|all| all.len() >= gpus);
            best = found.or(best);
            level = level.iter().flat_map(|cell| self.all[*cell].children.clone()).collect();
        }
        best.map(|mut all| {
            all.truncate(gpus);
            all
        })
    }
}

impl Cell {
    /// The node of its first GPU, of a physical cell.
    fn gpu_of(&self, cells: &Cells) -> Option<(usize, u32)> {
        cells.all[self.leaves[0]].gpu
    }
}
