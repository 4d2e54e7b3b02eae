//! Adam (Kingma and Ba 2015) with the decay added to the gradient.

pub(crate) struct Adam {
    rate: f64,
    decay: f64,
    first: Vec<f64>,
    second: Vec<f64>,
    steps: i32,
}

impl Adam {
    pub(crate) fn new(count: usize, rate: f64, decay: f64) -> Adam {
        Adam { rate, decay, first: vec![0.0; count], second: vec![0.0; count], steps: 0 }
    }

    /// One step against a gradient.
    pub(crate) fn step(&mut self, weights: &mut [f64], gradient: &[f64]) {
        const B1: f64 = 0.9;
        const B2: f64 = 0.999;
        self.steps += 1;
        let (c1, c2) = (1.0 - libm::pow(B1, f64::from(self.steps)), 1.0 - libm::pow(B2, f64::from(self.steps)));
        for (index, weight) in weights.iter_mut().enumerate() {
            let g = gradient[index] + self.decay * *weight;
            let (m, v) = (&mut self.first[index], &mut self.second[index]);
            *m = B1 * *m + (1.0 - B1) * g;
            *v = B2 * *v + (1.0 - B2) * g * g;
            *weight -= self.rate * (*m / c1) / (libm::sqrt(*v / c2) + 1e-8);
        }
    }
}
