//! Cohorts, queues, and the quotas that they lend to each other.

/// Place of a node of a [`Tree`].
pub type NodeId = usize;

/// An amount of each resource of each flavor, in the order of the tree's columns.
pub type Usage = Vec<i64>;

/// What a node has of one resource of one flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Its own.
    pub nominal: i64,
    /// The most of it that others may use; none: all.
    pub lending_limit: Option<i64>,
    /// The most that it may use of others; none: all that they lend.
    pub borrowing_limit: Option<i64>,
}

/// How much a node uses beyond its quota.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// 1000 times what is borrowed by what can be lent, of the resource where that is largest.
    ratio: f64,
    weight: f64,
    /// The resource where it is largest; none: nothing is borrowed that could be lent.
    pub resource: Option<usize>,
    /// Whether more is used than the quota, of any resource.
    pub borrows: bool,
}

impl Share {
    /// The ratio by the weight, rounded up; none: infinite, since a weight of 0 borrows.
    #[cfg(test)]
    pub fn rounded(&self) -> Option<u64> {
        (!self.is_infinite()).then(|| self.weighted().ceil() as u64)
    }

    /// What orders shares: the larger has the larger rank. Two that are infinite are ranked by what they borrow.
    pub fn rank(&self) -> (bool, u64) {
        let infinite = self.is_infinite();
        // Numbers of at least 0 are ordered as their bits are.
        (infinite, if infinite { self.ratio } else { self.weighted() }.to_bits())
    }

    fn is_infinite(&self) -> bool {
        self.borrows && self.weight == 0.0
    }

    fn weighted(&self) -> f64 {
        if self.ratio == 0.0 { 0.0 } else { self.ratio / self.weight }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    /// Of the tree below it; 0: a queue.
    height: u64,
    weight: f64,
    is_queue: bool,
    own: Vec<Quota>,
    /// Its own quota and what its children lend, by column.
    quota: Usage,
    used: Usage,
}

/// Cohorts and queues. A parent is added before its children.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The resource of each column.
    resources: Vec<usize>,
    nodes: Vec<Node>,
}

impl Tree {
    /// A tree without nodes. Each column is one flavor of a resource: `resources` has the resource's number. Of two resources
    /// with the same share the lower number dominates.
    pub fn new(resources: Vec<usize>) -> Tree {
        Tree { resources, nodes: Vec::new() }
    }

    /// Adds a cohort, or a queue, with its quotas by column.
    pub fn add(&mut self, parent: Option<NodeId>, is_queue: bool, weight: f64, own: Vec<Quota>) -> NodeId {
        let quota: Usage = own.iter().map(|quota| quota.nominal).collect();
        let used = vec![0; quota.len()];
        let id = self.nodes.len();
        self.nodes.push(Node { parent, children: Vec::new(), height: 0, weight, is_queue, own, quota, used });
        let above: Vec<NodeId> = self.path(id).skip(1).collect();
        for (height, at) in (1..).zip(above) {
            self.nodes[at].height = self.nodes[at].height.max(height);
        }
        if let Some(parent) = parent {
            self.nodes[parent].children.push(id);
        }
        for column in 0..self.resources.len() {
            let (mut at, mut lent) = (id, self.nodes[id].quota[column] - self.kept(id, column));
            while let Some(parent) = self.nodes[at].parent {
                let before = self.nodes[parent].quota[column] - self.kept(parent, column);
                self.nodes[parent].quota[column] += lent;
                lent = self.nodes[parent].quota[column] - self.kept(parent, column) - before;
                at = parent;
            }
        }
        id
    }

    /// Adds to what a queue, or the root, uses.
    pub fn take(&mut self, at: NodeId, amounts: &[i64]) {
        self.shift(at, amounts, 1);
    }

    /// Takes from what a queue uses.
    pub fn give_back(&mut self, at: NodeId, amounts: &[i64]) {
        self.shift(at, amounts, -1);
    }

    fn shift(&mut self, at: NodeId, amounts: &[i64], sign: i64) {
        for (column, amount) in amounts.iter().enumerate() {
            let (mut at, mut more) = (at, sign * amount);
            loop {
                let kept = self.kept(at, column);
                let beyond = |used: i64| (used - kept).max(0);
                let node = &mut self.nodes[at];
                let before = beyond(node.used[column]);
                node.used[column] += more;
                more = beyond(node.used[column]) - before;
                let Some(parent) = node.parent else { break };
                at = parent;
            }
        }
    }

    /// What a queue can take of a column now, with what it can borrow.
    pub fn available(&self, at: NodeId, column: usize) -> i64 {
        let node = &self.nodes[at];
        let (quota, used) = (node.quota[column], node.used[column]);
        let Some(parent) = node.parent else { return quota - used };
        let kept = self.kept(at, column);
        let of_others = self.available(parent, column);
        let most = node.own[column].borrowing_limit.map(|limit| quota - kept - (used - kept).max(0) + limit);
        (kept - used).max(0) + most.map_or(of_others, |most| most.min(of_others))
    }

    /// Whether a queue can take amounts, with what it can borrow; what it does not ask for is not looked at.
    pub fn fits(&self, queue: NodeId, amounts: &[i64]) -> bool {
        amounts.iter().enumerate().all(|(column, amount)| *amount == 0 || *amount <= self.available(queue, column))
    }

    /// What a node uses of a column: of a cohort what its children use beyond what they keep.
    pub fn used(&self, at: NodeId, column: usize) -> i64 {
        self.nodes[at].used[column]
    }

    /// A node's own quota of a column.
    pub fn nominal(&self, at: NodeId, column: usize) -> i64 {
        self.nodes[at].own[column].nominal
    }

    /// The most of a column that a node may borrow; none: all that others lend.
    pub fn borrowing_limit(&self, at: NodeId, column: usize) -> Option<i64> {
        self.nodes[at].own[column].borrowing_limit
    }

    /// A node's own quota of a column and what its children lend.
    pub fn quota(&self, at: NodeId, column: usize) -> i64 {
        self.nodes[at].quota[column]
    }

    /// Whether a node can take amounts within its quota; what it keeps and does not use is taken from them.
    pub fn fits_in_quota(&self, at: NodeId, amounts: &mut [i64]) -> bool {
        let mut fits = true;
        for (column, amount) in amounts.iter_mut().enumerate().filter(|(_, amount)| **amount > 0) {
            let used = self.used(at, column);
            fits &= used + *amount <= self.quota(at, column);
            *amount = (*amount - (self.kept(at, column) - used).max(0)).max(0);
        }
        fits
    }

    /// The lowest of a queue and its cohorts within whose quota it can take amounts.
    fn lowest_fit(&self, queue: NodeId, amounts: &[i64]) -> Option<NodeId> {
        let mut rest = amounts.to_vec();
        self.path(queue).find(|at| self.fits_in_quota(*at, &mut rest))
    }

    /// The height of the lowest cohort within whose quota a queue can take amounts; 0: within its own. Where there is none, that of the root.
    ///
    /// Source: Kueue's `FindHeightOfLowestSubtreeThatFits`.
    pub fn height_of_fit(&self, queue: NodeId, amounts: &[i64]) -> u64 {
        let highest = self.lowest_fit(queue, amounts).or_else(|| self.path(queue).last());
        highest.map_or(0, |at| self.nodes[at].height)
    }

    /// Whether a queue, or a cohort that is itself in one, has quota for amounts, with what its own use: a job that asks for them may take it back.
    pub fn fits_below_the_root(&self, queue: NodeId, amounts: &[i64]) -> bool {
        self.lowest_fit(queue, amounts).is_some_and(|at| self.nodes[at].parent.is_some())
    }

    /// Whether a node uses more of a column than its quota.
    pub fn borrows(&self, at: NodeId, column: usize) -> bool {
        self.nodes[at].used[column] > self.nodes[at].quota[column]
    }

    /// A node's dominant share. A root has none.
    pub fn share(&self, at: NodeId) -> Share {
        self.share_of(at, |_| 0)
    }

    /// A node's dominant share if a queue of it took more.
    pub fn share_with(&self, at: NodeId, queue: NodeId, amounts: &[i64]) -> Share {
        self.share_of(at, |column| {
            let below = self.path(queue).take_while(|node| *node != at);
            below.fold(amounts[column], |more, node| {
                let beyond = |used: i64| (used - self.kept(node, column)).max(0);
                let used = self.nodes[node].used[column];
                beyond(used + more) - beyond(used)
            })
        })
    }

    fn share_of(&self, at: NodeId, more: impl Fn(usize) -> i64) -> Share {
        let node = &self.nodes[at];
        let mut share = Share { ratio: 0.0, weight: node.weight, resource: None, borrows: false };
        let Some(parent) = node.parent else { return share };
        for resource in 0..=self.resources.iter().copied().max().unwrap_or(0) {
            let columns = || (0..self.resources.len()).filter(|column| self.resources[*column] == resource);
            let beyond = |column: usize| (node.used[column] + more(column) - node.quota[column]).max(0);
            let borrowed: i64 = columns().map(beyond).sum();
            let lendable: i64 = columns().map(|column| self.potential(parent, column)).sum();
            share.borrows |= borrowed > 0;
            let ratio = if lendable > 0 { 1000.0 * borrowed as f64 / lendable as f64 } else { 0.0 };
            if ratio > share.ratio {
                (share.ratio, share.resource) = (ratio, Some(resource));
            }
        }
        share
    }

    /// The nodes in which a node is, itself first.
    pub fn path(&self, at: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(at), |at| self.nodes[*at].parent)
    }

    /// The nodes right below a node.
    pub fn children(&self, of: NodeId) -> &[NodeId] {
        &self.nodes[of].children
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node is a queue, and no cohort.
    pub fn is_queue(&self, at: NodeId) -> bool {
        self.nodes[at].is_queue
    }

    /// What a node keeps for itself: what it may not lend.
    fn kept(&self, at: NodeId, column: usize) -> i64 {
        let node = &self.nodes[at];
        node.own[column].lending_limit.map_or(0, |limit| (node.quota[column] - limit).max(0))
    }

    /// What a node and those below it could use if no other used anything.
    pub fn potential(&self, at: NodeId, column: usize) -> i64 {
        let node = &self.nodes[at];
        let Some(parent) = node.parent else { return node.quota[column] };
        let all = self.kept(at, column) + self.potential(parent, column);
        node.own[column].borrowing_limit.map_or(all, |limit| all.min(node.quota[column] + limit))
    }
}
