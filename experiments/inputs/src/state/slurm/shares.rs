//! What `sshare` and the configuration say of priorities: accounts and users with their shares and usage, and how priorities are made.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Accounts, and users in them, as `sshare -a -l -P` lists them: a blank more for each level of the tree.
///
/// # Errors
/// A column that is not there, or what is no number.
pub(super) fn associations(text: &str) -> Result<Vec<Value>, String> {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Ok(Vec::new()) };
    let column = |name: &str| {
        let found = head.split('|').position(|word| word == name);
        found.ok_or_else(|| format!("sshare: expected a column {name}, found {head:?}"))
    };
    let [named, user, shares, used, factor] =
        [column("Account")?, column("User")?, column("RawShares")?, column("RawUsage")?, column("FairShare")?];
    let (mut path, mut all): (Vec<(usize, String)>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let of = |at: usize| fields.get(at).copied().unwrap_or("");
        let number = |at: usize, what: &str| match of(at) {
            // An account may have the shares of the one that it is in.
            "" | "parent" => Ok(None),
            text => {
                let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
                number.map(Some).ok_or_else(|| format!("sshare: {what}: expected a number, found {text:?}"))
            }
        };
        path.retain(|(above, _)| *above < depth);
        let (account, user) = (of(named).to_string(), of(user).to_string());
        // The root of all is no account.
        if depth == 0 && user.is_empty() {
            continue;
        }
        let used = number(used, "RawUsage")?;
        // A user may be there once for each partition.
        if let Some(at) = known.get(&(account.clone(), user.clone())) {
            let sum: f64 = all[*at]["used"].as_f64().unwrap_or(0.0) + used.unwrap_or(0.0);
            all[*at]["used"] = json!(sum);
            continue;
        }
        known.insert((account.clone(), user.clone()), all.len());
        let is_user = !user.is_empty();
        all.push(json!({
            "account": (depth > 1 || !is_user).then_some(&account),
            "within": (!is_user).then(|| path.last().map(|(_, name)| name.clone())).flatten(),
            "user": is_user.then_some(user),
            "shares": number(shares, "RawShares")?,
            "used": used,
            "factor": number(factor, "FairShare")?.filter(|_| is_user),
        }));
        if !is_user {
            path.push((depth, account));
        }
    }
    Ok(all)
}

/// How priorities are made of a job's parts, by the configuration's fields; nothing where they are in the order of submission.
pub(super) fn multifactor<'a>(of: impl Fn(&str) -> Option<&'a str>) -> Value {
    if of("PriorityType") != Some("priority/multifactor") {
        return Value::Null;
    }
    let number = |key: &str| of(key).and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
    let flags = of("PriorityFlags").unwrap_or_default();
    let enforced = of("AccountingStorageEnforce").unwrap_or_default();
    let limits = ["limits", "safe", "all"];
    json!({
        "age": number("PriorityWeightAge"),
        "most_age_s": of("PriorityMaxAge").and_then(time),
        "fair_share": number("PriorityWeightFairShare"),
        "tree": !flags.split(',').any(|flag| flag.trim() == "NO_FAIR_TREE"),
        "damping": number("FairShareDampeningFactor"),
        "half_life_s": of("PriorityDecayHalfLife").and_then(time),
        "period_s": of("PriorityCalcPeriod").and_then(time),
        "counts_ends": enforced.split(',').any(|word| limits.contains(&word.trim())),
    })
}

/// Seconds of a time as the configuration shows it: `7-00:00:00`.
fn time(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let seconds = parts.iter().fold(0.0, |sum, part| sum * 60.0 + part);
    (parts.len() == 3).then_some(days.parse::<f64>().ok()? * 86_400.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_scontrol() {
        assert_eq!(time("7-00:00:00"), Some(604_800.0));
        assert_eq!(time("00:05:00"), Some(300.0));
        assert_eq!((time("UNLIMITED"), time("5")), (None, None));
    }

    #[test]
    fn accounts_and_users_are_a_tree() {
        let text = "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS\nroot|||0.0|9||1.0||\n \
                    root|root|1|0.5|0|0.0|0.0|1.000000|inf\n lab||40|0.5|9|1.0|1.0||0.5\n  lab|u1|parent|0.5|5|1.0|1.0|0.500000|0.5\n  lab|u1|1|0.5|4|1.0|1.0|0.500000|0.5\n";
        let all = associations(text).expect("a tree");
        let of = |at: usize, key: &str| all[at][key].clone();
        assert_eq!(all.len(), 3);
        assert_eq!((of(0, "account"), of(0, "user")), (Value::Null, json!("root")));
        assert_eq!((of(1, "account"), of(1, "within"), of(1, "shares")), (json!("lab"), Value::Null, json!(40.0)));
        assert_eq!((of(2, "account"), of(2, "user"), of(2, "shares")), (json!("lab"), json!("u1"), Value::Null));
        // Once for each of two partitions.
        assert_eq!((of(2, "used"), of(2, "factor")), (json!(9.0), json!(0.5)));
        assert!(
            associations("Account|User\n").is_err_and(|why| why.starts_with("sshare: expected a column RawShares"))
        );
    }
}
