//! Who has which cells, and what becomes of a group of pods that comes.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::JobId;

use crate::cells::{CellId, OPPORTUNISTIC, Placement};
use crate::config::Config;

/// Highest priority of a group.
const HIGHEST: i32 = 1000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub id: JobId,
    /// Its virtual cluster.
    pub cluster: String,
    /// The pinned cell that it wants.
    pub pin: Option<String>,
    /// The kinds of GPU that will do; none: any that its virtual cluster has.
    pub kinds: BTreeSet<String>,
    /// Below 0: without a guarantee.
    pub priority: i32,
    /// GPUs of each pod.
    pub pods: Vec<u32>,
    /// It goes on without a guarantee where a higher priority wants its cells, as long as no one else needs its GPUs.
    pub lazy: bool,
    /// It may not be preempted.
    pub fixed: bool,
}

/// What becomes of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nodes and GPUs of each pod, and the groups that have to go first.
    Place(Vec<(usize, Vec<u32>)>, BTreeSet<JobId>),
    /// It waits.
    Wait,
    /// It asks for what its virtual cluster never has.
    Refuse,
}

struct Held {
    group: Group,
    /// GPUs of its virtual cluster; empty: it has no guarantee.
    virtual_leaves: Vec<CellId>,
    leaves: Vec<CellId>,
}

/// Nodes and GPUs of each pod, and who goes first.
type Found = (Vec<(usize, Vec<u32>)>, BTreeSet<JobId>);

/// The cluster.
pub struct Hive {
    pub config: Config,
    held: BTreeMap<JobId, Held>,
}

impl Hive {
    pub fn new(config: Config) -> Hive {
        Hive { config, held: BTreeMap::new() }
    }

    /// Places a group, which holds its GPUs from now on; those that have to go first are gone.
    pub fn place(&mut self, group: &Group) -> Answer {
        let roots = match self.roots(group) {
            Some(roots) if group.priority <= HIGHEST => roots,
            None if group.priority < 0 && group.cluster.is_empty() => Vec::new(),
            _ => return Answer::Refuse,
        };
        let cells = &self.config.cells;
        let kind_of = |chain: usize| cells.chains[chain].kinds[0].as_str();
        let wanted = |chain: usize| group.kinds.is_empty() || group.kinds.contains(kind_of(chain));
        let opportunistic = group.priority < 0;
        let mut chains: Vec<usize> = match opportunistic {
            true => (0..cells.chains.len()).collect(),
            false => {
                let own: BTreeSet<usize> = roots.iter().map(|root| cells.all[*root].chain).collect();
                own.into_iter().collect()
            }
        };
        chains.retain(|chain| wanted(*chain));
        if chains.is_empty() {
            return Answer::Refuse;
        }
        // Kind by kind; of each the chains whose name is last come first.
        chains.sort_by_key(|chain| (kind_of(*chain), std::cmp::Reverse(cells.chains[*chain].name.as_str())));
        for chain in chains {
            let found = match opportunistic {
                true => self.without_guarantee(group, chain),
                false => self.guaranteed(group, chain, &roots),
            };
            if let Some((placement, victims)) = found {
                return Answer::Place(placement, victims);
            }
        }
        Answer::Wait
    }

    /// The cells of its virtual cluster that a group may have; none: there is no such.
    fn roots(&self, group: &Group) -> Option<Vec<CellId>> {
        let cluster = self.config.clusters.get(&group.cluster)?;
        match &group.pin {
            Some(pin) => cluster.pinned.get(pin).map(|root| vec![*root]),
            None => Some(cluster.cells.clone()),
        }
    }

    /// Whether its virtual cluster has room for a group where it uses nothing.
    pub fn ever_fits(&self, group: &Group) -> bool {
        let (cells, roots) = (&self.config.cells, self.roots(group).unwrap_or_default());
        let kinds: BTreeSet<usize> = roots.iter().map(|root| cells.all[*root].chain).collect();
        kinds.into_iter().any(|chain| {
            let of = |root: &CellId| cells.all[*root].chain == chain;
            let own: Vec<CellId> = roots.iter().copied().filter(of).collect();
            let will_do = group.kinds.is_empty() || group.kinds.contains(&cells.chains[chain].kinds[0]);
            will_do && cells.would_fit(&cells.nodes(&own), &group.pods)
        })
    }

    fn without_guarantee(&mut self, group: &Group, chain: usize) -> Option<Found> {
        let nodes = self.config.cells.nodes(&self.config.cells.tops[chain]);
        let placement = self.config.cells.pack(&nodes, &group.pods, OPPORTUNISTIC, false)?;
        Some((self.take(group, Vec::new(), &placement), BTreeSet::new()))
    }

    fn guaranteed(&mut self, group: &Group, chain: usize, roots: &[CellId]) -> Option<Found> {
        let cells = &self.config.cells;
        let own: Vec<CellId> = roots.iter().copied().filter(|root| cells.all[*root].chain == chain).collect();
        let placement = cells.pack(&cells.nodes(&own), &group.pods, group.priority, true)?;
        let before = self.config.cells.clone();
        let mut lazily: Vec<(JobId, Vec<CellId>)> = Vec::new();
        for leaf in placement.iter().flatten() {
            let user = self.config.cells.all[*leaf].peer.and_then(|physical| self.config.cells.all[physical].job);
            if let Some(user) = user.filter(|user| self.held.get(user).is_some_and(|held| held.group.lazy)) {
                lazily.extend(self.lose_guarantee(user).map(|leaves| (user, leaves)));
            }
        }
        let bound = placement.iter().flatten().all(|leaf| self.config.cells.bind_leaf(*leaf));
        let physical = |leaf: &CellId| self.config.cells.all[*leaf].peer.unwrap_or(*leaf);
        let on: Placement = placement.iter().map(|pod| pod.iter().map(physical).collect()).collect();
        let victims: BTreeSet<JobId> =
            on.iter().flatten().filter_map(|leaf| self.config.cells.all[*leaf].job).collect();
        let stays = |victim: &JobId| self.held.get(victim).is_some_and(|held| held.group.fixed);
        if !bound || victims.iter().any(stays) {
            self.config.cells = before;
            for (user, leaves) in lazily {
                if let Some(held) = self.held.get_mut(&user) {
                    held.virtual_leaves = leaves;
                }
            }
            return None;
        }
        let wanted: Vec<CellId> = placement.into_iter().flatten().collect();
        victims.iter().for_each(|victim| self.release_but(*victim, &wanted));
        wanted.iter().for_each(|leaf| self.config.cells.all[*leaf].priority = group.priority);
        Some((self.take(group, wanted, &on), victims))
    }

    /// A group goes on without its guarantee; the GPUs of its virtual cluster that it had.
    fn lose_guarantee(&mut self, id: JobId) -> Option<Vec<CellId>> {
        let held = self.held.get_mut(&id)?;
        let virtual_leaves = std::mem::take(&mut held.virtual_leaves);
        for leaf in &held.leaves {
            self.config.cells.all[*leaf].priority = OPPORTUNISTIC;
        }
        virtual_leaves.iter().for_each(|leaf| self.config.cells.unbind_leaf(*leaf));
        (!virtual_leaves.is_empty()).then_some(virtual_leaves)
    }

    /// A group holds these GPUs; nodes and numbers of each pod.
    fn take(&mut self, group: &Group, virtual_leaves: Vec<CellId>, on: &Placement) -> Vec<(usize, Vec<u32>)> {
        let cells = &mut self.config.cells;
        let priority = group.priority.max(OPPORTUNISTIC);
        for leaf in on.iter().flatten() {
            (cells.all[*leaf].priority, cells.all[*leaf].job) = (priority, Some(group.id));
        }
        let pod = |leaves: &Vec<CellId>| {
            let gpus: Vec<(usize, u32)> = leaves.iter().filter_map(|leaf| cells.all[*leaf].gpu).collect();
            (gpus.first().map_or(0, |(node, _)| *node), gpus.into_iter().map(|(_, gpu)| gpu).collect())
        };
        let given = on.iter().map(pod).collect();
        let held = Held { group: group.clone(), virtual_leaves, leaves: on.iter().flatten().copied().collect() };
        self.held.insert(group.id, held);
        given
    }

    /// A group is on these GPUs, by node and number, without a guarantee.
    pub fn adopt(&mut self, group: &Group, gpus: &[(usize, u32)]) {
        let is_there = |leaf: &CellId| self.config.cells.all[*leaf].gpu.is_some_and(|gpu| gpus.contains(&gpu));
        let leaves: Vec<CellId> = (0..self.config.cells.all.len()).filter(is_there).collect();
        let group = Group { priority: OPPORTUNISTIC, ..group.clone() };
        self.take(&group, Vec::new(), &vec![leaves]);
    }

    /// A group has let its GPUs go.
    pub fn release(&mut self, id: JobId) {
        self.release_but(id, &[]);
    }

    /// A group has let its GPUs go; these of its virtual cluster stay bound.
    fn release_but(&mut self, id: JobId, wanted: &[CellId]) {
        let Some(Held { virtual_leaves, leaves, .. }) = self.held.remove(&id) else { return };
        for leaf in leaves {
            let cell = &mut self.config.cells.all[leaf];
            (cell.priority, cell.job) = (crate::cells::FREE, None);
        }
        for leaf in virtual_leaves.into_iter().filter(|leaf| !wanted.contains(leaf)) {
            self.config.cells.unbind_leaf(leaf);
        }
    }
}
