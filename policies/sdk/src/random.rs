//! All the randomness that a policy may have: a generator that begins at `setup.seed`.

/// SplitMix64: small, and good enough to shuffle nodes.
pub struct Draws(u64);

impl Draws {
    /// From a seed.
    ///
    /// ```
    /// use sandtable_policy::Draws;
    ///
    /// let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    /// Draws::new(7).shuffle(&mut order);
    /// let mut again = [0, 1, 2, 3, 4, 5, 6, 7];
    /// Draws::new(7).shuffle(&mut again);
    /// assert_eq!(order, again);
    /// assert!(Draws::new(7).below(3) < 3);
    /// ```
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// Uniform over all integers.
    pub fn integer(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below a bound, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.integer()) * bound as u128) >> 64) as usize
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}
