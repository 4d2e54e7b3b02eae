//! How KAI divides the GPUs of a group among its queues: first what each is guaranteed, then the rest by priority and weight.

/// What a queue may have of the GPUs of its group.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Higher is served first.
    pub priority: i32,
    /// GPUs that it may always have; infinite: all.
    pub guaranteed: f64,
    /// Its part of the rest.
    pub weight: f64,
    /// GPUs that it can use: what its jobs hold and wait for, up to its limit.
    pub usable: f64,
    /// Its part of what the cluster had lately, 0 to 1.
    pub used: f64,
}

/// The fair share of each queue, in GPUs, and what is left over. Claims come in the order in which queues were created; `by_usage`, from 0, is how much a queue's part of
/// the rest falls as it has used more than its weight, and grows as it has used less.
///
/// Source: KAI-Scheduler's division of one resource (`proportion/resource_division`, commit d5bc503).
pub fn divide(total: f64, by_usage: f64, claims: &[Claim]) -> (Vec<f64>, f64) {
    let guaranteed = |claim: &Claim| if claim.guaranteed.is_finite() { claim.guaranteed } else { total };
    let mut shares: Vec<f64> = claims.iter().map(|claim| guaranteed(claim).min(claim.usable)).collect();
    let left = total - shares.iter().sum::<f64>();
    let left = divide_rest(left.max(0.0), by_usage, claims, &mut shares);
    (shares, left)
}

/// Divides what no queue is guaranteed, the highest priority first; returns what is left.
fn divide_rest(mut left: f64, by_usage: f64, claims: &[Claim], shares: &mut [f64]) -> f64 {
    let mut priorities: Vec<i32> = claims.iter().map(|claim| claim.priority).collect();
    priorities.sort_unstable_by_key(|priority| std::cmp::Reverse(*priority));
    priorities.dedup();
    for priority in priorities {
        let members: Vec<usize> = (0..claims.len()).filter(|at| claims[*at].priority == priority).collect();
        left = divide_among((left, by_usage), &members, claims, shares);
    }
    left
}

/// The parts of queues in a round, which are 1 together: their weights, corrected by what they have used.
fn parts(open: &[usize], by_usage: f64, claims: &[Claim]) -> Vec<f64> {
    let normal = |parts: Vec<f64>| {
        let all: f64 = parts.iter().sum();
        parts.into_iter().map(|part| if all > 0.0 { part / all } else { 0.0 }).collect::<Vec<f64>>()
    };
    let weights = normal(open.iter().map(|at| claims[*at].weight).collect());
    if by_usage == 0.0 {
        return weights;
    }
    let corrected = |(at, weight): (&usize, f64)| (weight + by_usage * (weight - claims[*at].used)).max(0.0);
    normal(open.iter().zip(weights).map(corrected).collect())
}

/// Divides by weight among queues of one priority: whole GPUs in rounds, then single ones by the largest fraction.
fn divide_among((mut left, by_usage): (f64, f64), members: &[usize], claims: &[Claim], shares: &mut [f64]) -> f64 {
    let mut fractions = vec![0.0; claims.len()];
    loop {
        let open: Vec<usize> = members.iter().copied().filter(|at| claims[*at].usable > shares[*at]).collect();
        let parts = parts(&open, by_usage, claims);
        if left <= 0.0 || parts.iter().all(|part| *part <= 0.0) {
            break;
        }
        let (of_round, mut again) = (left, false);
        for (at, part) in open.into_iter().zip(parts) {
            let fair = of_round * part;
            let wanted = claims[at].usable - shares[at];
            let gets = if wanted <= fair { wanted } else { fair.floor() };
            if wanted <= fair {
                fractions[at] = 0.0;
            } else if fair > gets {
                // A later round in which it comes out whole leaves the fraction of an earlier one.
                fractions[at] = fair - gets;
            }
            again |= wanted < fair;
            shares[at] += gets;
            left -= gets;
        }
        if !again {
            break;
        }
    }
    let mut order: Vec<usize> = members.iter().copied().filter(|at| fractions[*at] > 0.0).collect();
    // Stable: among equals the queue that was created first.
    order.sort_by(|a, b| fractions[*b].total_cmp(&fractions[*a]));
    for at in order {
        let gets = left.clamp(0.0, 1.0);
        shares[at] += gets;
        left -= gets;
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandtable_needs::needs;
    use sandtable_policy::testing::data;
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_rest_goes_by_weight_and_then_by_fraction() {
        let claim = |weight: f64, usable: f64| Claim { priority: 0, guaranteed: 0.0, weight, usable, used: 0.0 };
        let divide = |total: f64, claims: &[Claim]| divide(total, 0.0, claims);
        // 10 by 2:1:1 is 5, 2.5, 2.5: whole GPUs first, then one to the first of the largest fractions.
        assert_eq!(divide(10.0, &[claim(2.0, 20.0), claim(1.0, 20.0), claim(1.0, 20.0)]), (vec![5.0, 3.0, 2.0], 0.0));
        // In a second round the third has a whole one; its 3/4 of the first still come before the halves of the others.
        let four = [claim(1.0, 1.0), claim(1.0, 20.0), claim(2.0, 20.0), claim(4.0, 1.0)];
        assert_eq!(divide(3.0, &four), (vec![0.0, 0.0, 2.0, 1.0], 0.0));
        // What the first does not use is divided anew.
        assert_eq!(divide(9.0, &[claim(2.0, 1.0), claim(1.0, 20.0)]), (vec![1.0, 8.0], 0.0));
    }

    #[test]
    fn a_queue_that_has_used_more_than_its_weight_has_less_of_the_rest() {
        let claim = |weight: f64, used: f64| Claim { priority: 0, guaranteed: 0.0, weight, usable: 100.0, used };
        // Weights of a half each, corrected to 0.5 - 0.3 and 0.5 + 0.3.
        let two = [claim(1.0, 0.8), claim(1.0, 0.2)];
        assert_eq!(divide(10.0, 1.0, &two), (vec![2.0, 8.0], 0.0));
        assert_eq!(divide(10.0, 0.0, &two), (vec![5.0, 5.0], 0.0));
        // A part is never less than none; and what is there goes to the others.
        assert_eq!(divide(10.0, 10.0, &two), (vec![0.0, 10.0], 0.0));
        // Where no part is left nothing is divided.
        assert_eq!(divide(10.0, 10.0, &[claim(1.0, 1.0), claim(0.0, 0.0)]), (vec![10.0, 0.0], 0.0));
    }

    #[needs("data:kai")]
    #[test]
    fn published_divisions_are_met() {
        let text = std::fs::read_to_string(data("kai/division.json")).expect("the cases");
        let cases: Vec<Value> = serde_json::from_str(&text).expect("cases");
        for case in &cases {
            let number = |of: &Value, field: &str| of[field].as_f64().unwrap_or_else(|| panic!("{field} of {of}"));
            let any = |number: f64| if number < 0.0 { f64::INFINITY } else { number };
            let mut queues: Vec<(&String, &Value)> = case["queues"].as_object().expect("queues").iter().collect();
            queues.sort_by_key(|(id, queue)| (queue["created"].as_i64(), *id));
            let claim = |(_, queue): &(&String, &Value)| Claim {
                priority: number(queue, "priority") as i32,
                guaranteed: any(number(queue, "deserved")),
                weight: number(queue, "weight"),
                usable: number(queue, "request").min(any(number(queue, "limit"))),
                used: number(queue, "usage"),
            };
            let (claims, total, k) =
                (queues.iter().map(claim).collect::<Vec<_>>(), number(case, "total"), number(case, "k"));
            let (shares, left) = match case["function"].as_str() {
                Some("divide") => divide(total, k, &claims),
                _ => {
                    let mut shares: Vec<f64> = queues.iter().map(|(_, queue)| number(queue, "share")).collect();
                    let left = divide_rest(total, k, &claims, &mut shares);
                    (shares, left)
                }
            };
            let of_queues: BTreeMap<&str, f64> = queues.iter().map(|(id, _)| id.as_str()).zip(shares).collect();
            for (id, expected) in case["expect"].as_object().expect("what is expected") {
                let found = if id == "left" { left } else { of_queues[id.as_str()] };
                assert_eq!(Some(found), expected.as_f64(), "{id} of {}", case["name"]);
            }
        }
        assert!(cases.len() >= 42, "{}", cases.len());
    }
}
