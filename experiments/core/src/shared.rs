//! Values of which many are equal, each kept once.

use std::hash::Hash;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Equal values, each once, in the order in which they came. They are found by a hash that has no seed, and compared only where it is equal.
pub struct Shared<T>(IndexSet<Arc<T>, FxBuildHasher>);

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(IndexSet::default())
    }
}

impl<T: Hash + Eq> Shared<T> {
    /// The place of a value among the others, and what equal ones share.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let mut shared = sandtable_core::shared::Shared::default();
    /// let (place, first) = shared.of(Arc::new("a".to_string()));
    /// assert_eq!(shared.of(Arc::new("b".to_string())).0, 1);
    /// let (again, second) = shared.of(Arc::new("a".to_string()));
    /// assert!(place == again && Arc::ptr_eq(&first, &second));
    /// ```
    pub fn of(&mut self, value: Arc<T>) -> (usize, Arc<T>) {
        let (place, _) = self.0.insert_full(value);
        (place, self.0[place].clone())
    }

    /// The values, in the order in which they came.
    pub fn into_values(self) -> Vec<Arc<T>> {
        self.0.into_iter().collect()
    }
}
