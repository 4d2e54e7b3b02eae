//! Search along a line for a step that lowers a function enough and leaves it flat enough (Moré and Thuente, ACM TOMS
//! 20(3), 1994), with the constants of L-BFGS-B 3.0.
//
// Follows `dcsrch` and `dcstep` step by step, as L-BFGS-B 3.0 distributes them (see lbfgsb.rs and THIRD-PARTY.md):
//
//     MINPACK-1 Project. June 1983. Argonne National Laboratory. Jorge J. More' and David J. Thuente.
//     MINPACK-2 Project. November 1993. Argonne National Laboratory and University of Minnesota.
//     Brett M. Averick, Richard G. Carter, and Jorge J. More'.
//
// L-BFGS-B 3.0, by Ciyou Zhu, Richard Byrd, Peihuang Lu-Chen, Jorge Nocedal and Jose Luis Morales, is released under the
// New BSD License (3 clauses), whose text is in THIRD-PARTY.md. Changed: written anew in Rust, by cases of its own state
// machine; without its lower bound of steps and its checks of arguments.

/// It must fall by this part of what its slope promises.
const FALLS: f64 = 1e-3;
/// The slope must be this part of the first, or less.
const FLAT: f64 = 0.9;
/// An interval that is narrower, relative to its end, is a point.
const NARROW: f64 = 0.1;

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Another is to be tried.
    Goes,
    /// It does.
    Found,
    /// None will.
    Fails,
}

#[derive(Clone, Copy)]
struct Point {
    at: f64,
    value: f64,
    slope: f64,
}

/// A search that goes on.
pub struct Search {
    first: Point,
    /// The best so far, and the other end of the interval.
    best: Point,
    other: Point,
    step: f64,
    longest: f64,
    bracketed: bool,
    early: bool,
    bounds: (f64, f64),
    width: f64,
    older: f64,
}

impl Search {
    /// From a value and a slope below 0, beginning with a step.
    pub fn new(value: f64, slope: f64, step: f64, longest: f64) -> Search {
        let first = Point { at: 0.0, value, slope };
        Search {
            first,
            best: first,
            other: first,
            step,
            longest,
            bracketed: false,
            early: true,
            bounds: (0.0, step + 4.0 * step),
            width: longest,
            older: 2.0 * longest,
        }
    }

    /// The step to try.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// What came of it.
    pub fn judge(&mut self, value: f64, slope: f64) -> Verdict {
        let promise = FALLS * self.first.slope;
        let line = self.first.value + self.step * promise;
        if self.early && value <= line && slope >= 0.0 {
            self.early = false;
        }
        let stuck = self.bracketed && (self.step <= self.bounds.0 || self.step >= self.bounds.1);
        let narrow = self.bracketed && self.bounds.1 - self.bounds.0 <= NARROW * self.bounds.1;
        let longest = self.step == self.longest && value <= line && slope <= promise;
        if value <= line && slope.abs() <= FLAT * -self.first.slope {
            return Verdict::Found;
        }
        if stuck || narrow || longest {
            return if value <= line { Verdict::Found } else { Verdict::Fails };
        }
        let tried = Point { at: self.step, value, slope };
        // Early on, of the function less what is promised.
        if self.early && value <= self.best.value && value > line {
            let less = |at: Point| Point { value: at.value - at.at * promise, slope: at.slope - promise, ..at };
            let more = |at: Point| Point { value: at.value + at.at * promise, slope: at.slope + promise, ..at };
            (self.best, self.other) = (less(self.best), less(self.other));
            self.narrow(less(tried));
            (self.best, self.other) = (more(self.best), more(self.other));
        } else {
            self.narrow(tried);
        }
        if self.bracketed {
            let width = (self.other.at - self.best.at).abs();
            if width >= 0.66 * self.older {
                self.step = self.best.at + 0.5 * (self.other.at - self.best.at);
            }
            (self.older, self.width) = (self.width, width);
            self.bounds = (self.best.at.min(self.other.at), self.best.at.max(self.other.at));
        } else {
            self.bounds = (self.step + 1.1 * (self.step - self.best.at), self.step + 4.0 * (self.step - self.best.at));
        }
        self.step = self.step.clamp(0.0, self.longest);
        let over = self.step <= self.bounds.0 || self.step >= self.bounds.1;
        if self.bracketed && (over || self.bounds.1 - self.bounds.0 <= NARROW * self.bounds.1) {
            self.step = self.best.at;
        }
        Verdict::Goes
    }

    /// The next step, and the interval that holds what is looked for: by cubic and square fits.
    fn narrow(&mut self, tried: Point) {
        let (best, other) = (self.best, self.other);
        let apart = tried.at - best.at;
        let same_sign = tried.slope * (best.slope / best.slope.abs()) >= 0.0;
        let cubic = |clip: bool| {
            let theta = 3.0 * (best.value - tried.value) / apart + best.slope + tried.slope;
            let most = theta.abs().max(best.slope.abs()).max(tried.slope.abs());
            let under = (theta / most) * (theta / most) - (best.slope / most) * (tried.slope / most);
            (theta, most * if clip { under.max(0.0) } else { under }.sqrt())
        };
        let secant = tried.at + tried.slope / (tried.slope - best.slope) * (best.at - tried.at);
        let next;
        if tried.value > best.value {
            let (theta, gamma) = cubic(false);
            let gamma = if tried.at < best.at { -gamma } else { gamma };
            let part = ((gamma - best.slope) + theta) / (((gamma - best.slope) + gamma) + tried.slope);
            let by_cubic = best.at + part * apart;
            let by_square = best.at + best.slope / ((best.value - tried.value) / apart + best.slope) / 2.0 * apart;
            next = match (by_cubic - best.at).abs() < (by_square - best.at).abs() {
                true => by_cubic,
                false => by_cubic + (by_square - by_cubic) / 2.0,
            };
            self.bracketed = true;
        } else if !same_sign {
            let (theta, gamma) = cubic(false);
            let gamma = if tried.at > best.at { -gamma } else { gamma };
            let part = ((gamma - tried.slope) + theta) / (((gamma - tried.slope) + gamma) + best.slope);
            let by_cubic = tried.at + part * (best.at - tried.at);
            next = if (by_cubic - tried.at).abs() > (secant - tried.at).abs() { by_cubic } else { secant };
            self.bracketed = true;
        } else if tried.slope.abs() < best.slope.abs() {
            let (theta, gamma) = cubic(true);
            let gamma = if tried.at > best.at { -gamma } else { gamma };
            let part = ((gamma - tried.slope) + theta) / ((gamma + (best.slope - tried.slope)) + gamma);
            let by_cubic = match part < 0.0 && gamma != 0.0 {
                true => tried.at + part * (best.at - tried.at),
                false if tried.at > best.at => self.bounds.1,
                false => self.bounds.0,
            };
            let nearer = (by_cubic - tried.at).abs() < (secant - tried.at).abs();
            next = if self.bracketed {
                let step = if nearer { by_cubic } else { secant };
                let limit = tried.at + 0.66 * (other.at - tried.at);
                if tried.at > best.at { step.min(limit) } else { step.max(limit) }
            } else {
                let step = if nearer { secant } else { by_cubic };
                step.clamp(self.bounds.0.min(self.bounds.1), self.bounds.0.max(self.bounds.1))
            };
        } else if self.bracketed {
            let theta = 3.0 * (tried.value - other.value) / (other.at - tried.at) + other.slope + tried.slope;
            let most = theta.abs().max(other.slope.abs()).max(tried.slope.abs());
            let gamma = most * ((theta / most) * (theta / most) - (other.slope / most) * (tried.slope / most)).sqrt();
            let gamma = if tried.at > other.at { -gamma } else { gamma };
            let part = ((gamma - tried.slope) + theta) / (((gamma - tried.slope) + gamma) + other.slope);
            next = tried.at + part * (other.at - tried.at);
        } else {
            next = if tried.at > best.at { self.bounds.1 } else { self.bounds.0 };
        }
        if tried.value > best.value {
            self.other = tried;
        } else {
            if !same_sign {
                self.other = best;
            }
            self.best = tried;
        }
        self.step = next;
    }
}
