//! Kueue's own test cases.

mod classical;
mod nodes;

use std::collections::BTreeMap;

use sandtable_needs::needs;
use sandtable_policy::testing::data;
use serde_json::Value;

use crate::preempt::{Candidate, Incoming, Reason, Rules, Strategy, Victim, Victims, victims};
use crate::tree::{NodeId, Quota, Tree, Usage};

fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(file)).expect("the cases");
    serde_json::from_str(&text).expect("cases")
}

fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

fn word(of: &Value) -> &str {
    of.as_str().unwrap_or_default()
}

/// Columns are flavors of resources, `FLAVOR.RESOURCE`, by the resource's name; a CPU counts a thousand.
struct Columns(Vec<(String, String)>);

impl Columns {
    fn of(nodes: &[&Value], used: impl IntoIterator<Item = (String, String)>) -> Columns {
        let of_node = |node: &&Value| {
            let of_flavor = |quota: &Value| {
                let names = quota["resources"].as_object().expect("resources").keys().cloned();
                names.map(|name| (name, word(&quota["flavor"]).to_string())).collect::<Vec<_>>()
            };
            list(&node["quotas"]).iter().flat_map(of_flavor).collect::<Vec<_>>()
        };
        let mut columns: Vec<(String, String)> = nodes.iter().flat_map(of_node).chain(used).collect();
        columns.sort();
        columns.dedup();
        Columns(columns)
    }

    fn resources(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.iter().map(|(resource, _)| resource.clone()).collect();
        names.dedup();
        names
    }

    fn quotas(&self, node: &Value) -> Vec<Quota> {
        let quota = |(resource, flavor): &(String, String)| {
            let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
            let of = list(&node["quotas"]).iter().find(|quota| quota["flavor"] == flavor.as_str());
            let of = of.map_or(&Value::Null, |quota| &quota["resources"][resource]);
            let number = |field: &str| of[field].as_f64().map(|number| (number * unit) as i64);
            Quota {
                nominal: number("nominal").unwrap_or(0),
                lending_limit: number("lending_limit"),
                borrowing_limit: number("borrowing_limit"),
            }
        };
        self.0.iter().map(quota).collect()
    }

    /// The tree of a case: cohorts that only children name have no quota.
    fn tree(&self, queues: &[&Value], cohorts: &[Value]) -> (Tree, BTreeMap<String, NodeId>) {
        let names = self.resources();
        let resource = |(name, _): &(String, String)| names.iter().position(|known| known == name).expect("a resource");
        let (mut tree, mut ids) = (Tree::new(self.0.iter().map(resource).collect()), BTreeMap::new());
        let known: BTreeMap<&str, &Value> = cohorts.iter().map(|cohort| (word(&cohort["name"]), cohort)).collect();
        for queue in queues {
            let mut chain = vec![(word(&queue["name"]), *queue)];
            let mut parent = word(&queue["parent"]);
            while !parent.is_empty() {
                let node = known.get(parent).copied().unwrap_or(&Value::Null);
                chain.push((parent, node));
                parent = word(&node["parent"]);
            }
            let mut above = None;
            for (name, node) in chain.into_iter().rev() {
                let weight = node["weight"].as_f64().unwrap_or(1.0);
                let is_queue = name == word(&queue["name"]);
                let id = ids.entry(name.to_string());
                above = Some(*id.or_insert_with(|| tree.add(above, is_queue, weight, self.quotas(node))));
            }
        }
        (tree, ids)
    }

    fn usage(&self, amount: impl Fn(&str, &str) -> i64) -> Usage {
        self.0.iter().map(|(resource, flavor)| amount(resource, flavor)).collect()
    }
}

#[needs("data:kueue")]
#[test]
fn published_dominant_shares_are_met() {
    let mut shares = 0;
    for case in cases("kueue/shares.json") {
        let queues: Vec<&Value> =
            [&case["clusterQueue"], &case["lendingClusterQueue"]].into_iter().filter(|of| of.is_object()).collect();
        let cohorts = list(&case["cohorts"]);
        let nodes: Vec<&Value> = queues.iter().copied().chain(cohorts).collect();
        let columns = Columns::of(&nodes, []);
        let (mut tree, ids) = columns.tree(&queues, cohorts);
        for used in [&case["usage"], &case["flvResQ"]] {
            let amounts = columns.usage(|resource, flavor| used[format!("{flavor}.{resource}")].as_i64().unwrap_or(0));
            tree.take(ids[word(&case["clusterQueue"]["name"])], &amounts);
        }
        for want in list(&case["want"]) {
            let found = tree.share(ids[word(&want["Name"])]);
            let resource = found.resource.map_or(String::new(), |at| columns.resources()[at].clone());
            let value = found.rounded().unwrap_or(i64::MAX as u64);
            let expected = (word(&want["DrName"]), want["DrValue"].as_u64().unwrap_or(u64::MAX));
            assert_eq!((resource.as_str(), value), expected, "{} of {}", want["Name"], case["name"]);
            assert_eq!(Some(found.borrows), want["Borrowing"].as_bool(), "{} of {}", want["Name"], case["name"]);
            shares += 1;
        }
    }
    assert!(shares >= 28, "{shares}");
}

/// The rules of a queue; what it does not say is Kueue's default.
fn rules(queue: &Value) -> Rules {
    let of = |field: &str| match word(&queue["preemption"][field]).trim_start_matches("PreemptionPolicy") {
        "" | "Never" => Victims::Never,
        "LowerPriority" => Victims::LowerPriority,
        "LowerOrNewerEqualPriority" => Victims::LowerOrNewerEqualPriority,
        "Any" => Victims::Any,
        other => panic!("{other}"),
    };
    Rules { within_queue: of("WithinClusterQueue"), within_tree: of("ReclaimWithinCohort") }
}

fn strategies(case: &Value) -> (Strategy, Option<Strategy>) {
    let of = |value: &Value| match word(value).trim_start_matches("config.") {
        "LessThanOrEqualToFinalShare" => Strategy::AtMostFinalShare,
        "LessThanInitialShare" => Strategy::BelowInitialShare,
        other => panic!("{other}"),
    };
    let both = (Strategy::AtMostFinalShare, Some(Strategy::BelowInitialShare));
    list(&case["strategies"]).split_first().map_or(both, |(first, rest)| (of(first), rest.first().map(of)))
}

/// A case of preemption: the tree with what admitted jobs use, those jobs by name and by queue, and the one that comes.
struct Situation<'a> {
    columns: Columns,
    tree: Tree,
    admitted: Vec<&'a Value>,
    candidates: BTreeMap<NodeId, Vec<Candidate>>,
    incoming: Incoming,
    /// What the queue of the incoming job may do.
    target: &'a Value,
}

impl<'a> Situation<'a> {
    /// That of a case, with flavors that jobs use beside those of the quotas, and what a job uses.
    fn of(
        case: &'a Value,
        used: impl IntoIterator<Item = (String, String)>,
        usage: impl Fn(&Columns, &Value) -> Usage,
    ) -> Situation<'a> {
        let queues: Vec<&Value> = list(&case["clusterQueues"]).iter().collect();
        let cohorts = list(&case["cohorts"]);
        let nodes: Vec<&Value> = queues.iter().copied().chain(cohorts).collect();
        let columns = Columns::of(&nodes, used);
        let (mut tree, ids) = columns.tree(&queues, cohorts);
        let mut admitted: Vec<&Value> = list(&case["admitted"]).iter().collect();
        admitted.sort_by_key(|job| word(&job["name"]));
        let mut candidates: BTreeMap<NodeId, Vec<Candidate>> = BTreeMap::new();
        for (id, job) in (0..).zip(&admitted) {
            let (queue, usage) = (ids[word(&job["queue"])], usage(&columns, job));
            tree.take(queue, &usage);
            candidates.entry(queue).or_default().push(Candidate {
                id,
                usage,
                priority: job["priority"].as_i64().unwrap_or(0) as i32,
                submitted: job["created"].as_i64().unwrap_or(0),
                reserved: job["reserved_at"].as_i64().unwrap_or(0),
                evicted: job["evicted"].as_bool().unwrap_or(false),
            });
        }
        candidates.values_mut().for_each(|of| of.sort_by(Candidate::order));
        let job = &case["incoming"];
        let incoming = Incoming {
            queue: ids[word(&case["targetCQ"])],
            usage: usage(&columns, job),
            priority: job["priority"].as_i64().unwrap_or(0) as i32,
            submitted: job["created"].as_i64().unwrap_or(0),
        };
        let target = queues.iter().find(|queue| queue["name"] == case["targetCQ"]).expect("a queue");
        Situation { columns, tree, admitted, candidates, incoming, target }
    }

    /// The names of victims and Kueue's words for why they go; the tree is left as it was.
    fn victims<'b>(
        &'b mut self,
        find: impl FnOnce(&mut Tree, &dyn Fn(NodeId) -> &'b [Candidate], &Incoming) -> Vec<Victim>,
    ) -> Vec<(&'a str, &'static str)> {
        let candidates = &self.candidates;
        let of_queue = |queue| candidates.get(&queue).map_or(&[][..], Vec::as_slice);
        let before = self.tree.clone();
        let found = find(&mut self.tree, &of_queue, &self.incoming);
        assert_eq!(self.tree, before);
        let reason = |reason| match reason {
            Reason::InQueue => "InClusterQueue",
            Reason::Reclamation => "InCohortReclamation",
            Reason::ReclamationWhileBorrowing => "InCohortReclaimWhileBorrowing",
            Reason::FairSharing => "InCohortFairSharing",
        };
        let told = |(at, _, why): Victim| (word(&self.admitted[at as usize]["name"]), reason(why));
        let mut found: Vec<(&str, &str)> = found.into_iter().map(told).collect();
        found.sort_unstable();
        found
    }
}

#[needs("data:kueue")]
#[test]
fn published_fair_preemptions_are_met() {
    let all = cases("kueue/fair-preemption.json");
    for case in &all {
        let usage = |columns: &Columns, job: &Value| {
            let of = word(&job["flavor"]);
            columns.usage(|resource, flavor| {
                let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
                let here = of.is_empty() || of == flavor;
                if here { (job["requests"][resource].as_f64().unwrap_or(0.0) * unit) as i64 } else { 0 }
            })
        };
        let mut situation = Situation::of(case, [], usage);
        let (rules, by) = (rules(situation.target), strategies(case));
        let found = situation.victims(|tree, of_queue, incoming| victims(tree, of_queue, incoming, rules, by));
        let gone = list(&case["wantPreempted"]).iter();
        let mut wanted: Vec<(&str, &str)> =
            gone.map(|of| (word(&of["workload"]), word(&of["reason"]).trim_end_matches("Reason"))).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{}", case["name"]);
    }
    assert!(all.len() >= 23, "{}", all.len());
}
