use super::*;

fn claim(text: &str) -> Claim {
    let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
    let spec = options.from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Claim { spec, at: Vec::new(), index: 0 }
}

fn of<'a>(claim: &'a Claim, mean: f64, half: f64, runs: usize) -> Measured<'a> {
    let estimate = Some(Estimate { mean, half, runs });
    Measured { claim, estimate, failed: Vec::new(), missing: 0, without: Vec::new(), starved: Vec::new(), repeated: 0 }
}

const RELATIVE: &str = "Claim(says: \"s\", of: \"a\", against: \"b\", metric: \"jct_mean_s\", published: ";

#[test]
fn a_claim_holds_by_its_mean_and_says_how_surely() {
    let at_most = claim("Claim(says: \"s\", of: \"a\", against: \"b\", metric: \"m\", holds: AtMost(-0.1))");
    let verdict = |claim: &Claim, mean, half, runs| of(claim, mean, half, runs).verdict().words();
    assert_eq!(verdict(&at_most, -0.2, 0.05, 3), "holds");
    assert_eq!(verdict(&at_most, -0.2, 0.15, 3), "inconclusive, mean holds");
    assert_eq!(verdict(&at_most, 0.0, 0.05, 3), "FAILS");
    assert_eq!(verdict(&at_most, -0.05, 0.1, 3), "inconclusive, mean fails");
    assert_eq!(verdict(&at_most, -0.2, f64::INFINITY, 1), "holds, one run");
    assert_eq!(verdict(&at_most, 0.2, f64::INFINITY, 1), "FAILS, one run");
    let between = claim("Claim(says: \"s\", of: \"a\", metric: \"m\", holds: Between(1, 2))");
    assert_eq!(verdict(&between, 1.5, 0.4, 3), "holds");
    // The interval covers the whole bound.
    assert_eq!(verdict(&between, 1.5, 0.6, 3), "inconclusive, mean holds");
    assert_eq!(verdict(&between, 2.5, 0.4, 3), "FAILS");
    assert_eq!(verdict(&between, 2.5, 3.0, 3), "inconclusive, mean fails");
}

#[test]
fn lost_runs_are_no_smaller_sample() {
    let claim = claim("Claim(says: \"s\", of: \"a\", metric: \"m\", holds: AtMost(1))");
    let failed = Measured { failed: vec!["a seed 3: trap".into()], ..of(&claim, 0.5, 0.1, 19) };
    assert_eq!((failed.verdict(), failed.holds()), (Verdict::CellsFailed, None));
    assert!(render(&[failed]).contains("failed: a seed 3: trap"));
    let missing = Measured { missing: 2, ..of(&claim, 0.5, 0.1, 18) };
    assert_eq!(missing.verdict(), Verdict::Incomplete);
    let nothing = Measured { estimate: None, missing: 20, ..of(&claim, 0.5, 0.1, 1) };
    assert_eq!(nothing.verdict(), Verdict::NotMeasured);
    let none = Measured { estimate: None, failed: vec!["a seed 0: trap".into()], ..of(&claim, 0.5, 0.1, 1) };
    assert_eq!(none.verdict(), Verdict::CellsFailed);
}

#[test]
fn the_figure_is_compared_with_the_interval() {
    let words = |figure: &str, mean, half| {
        let claim = claim(&format!("{RELATIVE}{figure}, holds: AtMost(0))"));
        in_words(&of(&claim, mean, half, if f64::is_finite(half) { 20 } else { 1 })).agreement
    };
    assert_eq!(words("-0.22", -0.20, 0.03), "agrees");
    assert_eq!(words("-0.22", -0.54, 0.04), "same direction, larger");
    assert_eq!(words("-0.683", -0.51, 0.01), "same direction, smaller");
    assert_eq!(words("0.18", -0.03, 0.01), "opposite");
    assert_eq!(words("0.18", 0.01, 0.02), "no change shown");
    // Any part of a range.
    assert_eq!(words("(-0.307, -0.237)", -0.25, 0.02), "agrees");
    assert_eq!(words("(-0.307, -0.237)", -0.21, 0.02), "same direction, smaller");
    assert_eq!(words("-0.22", -0.20, f64::INFINITY), "one run: +2.0 points");
    let reference = "Claim(says: \"s\", of: \"a\", metric: \"m\", reference: Reference(value: 634.2, by: \"X's code\"), holds: AtMost(700))";
    let claim = claim(reference);
    let row = in_words(&of(&claim, 611.0, f64::INFINITY, 1));
    assert_eq!(
        (row.agreement.as_str(), row.published.as_str(), row.reference.as_str()),
        ("one run: -3.7 %", "-", "634.2")
    );
    assert!(render(&[of(&claim, 611.0, f64::INFINITY, 1)]).contains("reference: X's code"));
    assert_eq!(in_words(&of(&claim, 611.0, 2.0, 3)).agreement, "smaller");
}
