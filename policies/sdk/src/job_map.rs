//! A table by job that has room for those alone that are in it: ids only grow, and most jobs have ended.

use crate::JobId;

/// Jobs of a page.
const PAGE: usize = 1024;

struct Page<T> {
    slots: Vec<Option<T>>,
    used: usize,
}

/// Values by job id.
///
/// ```
/// use sandtable_policy::JobMap;
///
/// let mut waits = JobMap::default();
/// assert_eq!(waits.insert(3_000_000, "a"), None);
/// assert_eq!(waits.get(3_000_000), Some(&"a"));
/// assert_eq!(waits.remove(3_000_000), Some("a"));
/// assert_eq!(waits.get(3_000_000), None);
/// ```
pub struct JobMap<T> {
    /// By id; a page without a value is given back.
    pages: Vec<Option<Box<Page<T>>>>,
}

impl<T> Default for JobMap<T> {
    fn default() -> JobMap<T> {
        JobMap { pages: Vec::new() }
    }
}

impl<T> JobMap<T> {
    fn slot(id: JobId) -> (usize, usize) {
        (id as usize / PAGE, id as usize % PAGE)
    }

    /// Returns a job's value.
    pub fn get(&self, id: JobId) -> Option<&T> {
        let (page, slot) = Self::slot(id);
        self.pages.get(page)?.as_ref()?.slots[slot].as_ref()
    }

    /// Returns a job's value, to be changed.
    pub fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        let (page, slot) = Self::slot(id);
        self.pages.get_mut(page)?.as_mut()?.slots[slot].as_mut()
    }

    /// Enters a value; returns the one before.
    pub fn insert(&mut self, id: JobId, value: T) -> Option<T> {
        let (page, slot) = Self::slot(id);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let empty = || Box::new(Page { slots: (0..PAGE).map(|_| None).collect(), used: 0 });
        let page = self.pages[page].get_or_insert_with(empty);
        let before = page.slots[slot].replace(value);
        page.used += usize::from(before.is_none());
        before
    }

    /// Takes a value out.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        let (number, slot) = Self::slot(id);
        let page = self.pages.get_mut(number)?.as_mut()?;
        let value = page.slots[slot].take()?;
        page.used -= 1;
        if page.used == 0 {
            self.pages[number] = None;
        }
        Some(value)
    }

    /// Returns the jobs that have a value, by id.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        let pages = self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref()?)));
        pages.flat_map(|(number, page)| {
            let full = page.slots.iter().enumerate().filter(|(_, value)| value.is_some());
            full.map(move |(slot, _)| (number * PAGE + slot) as JobId)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_value_is_given_back() {
        let mut map = JobMap::default();
        for id in 0..3000 {
            assert_eq!(map.insert(id, id), None);
        }
        assert_eq!(map.insert(5, 50), Some(5));
        for id in 0..2000 {
            assert_eq!(map.remove(id), Some(if id == 5 { 50 } else { id }));
            assert_eq!(map.remove(id), None);
        }
        assert_eq!(map.pages.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(map.ids().collect::<Vec<_>>(), (2000..3000).collect::<Vec<_>>());
        if let Some(value) = map.get_mut(2999) {
            *value = 1;
        }
        assert_eq!((map.get(2999), map.get(9), map.get(1_000_000)), (Some(&1), None, None));
    }
}
