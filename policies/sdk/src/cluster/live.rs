//! The live jobs. Ids count up and jobs end, so a page of ids takes memory only while one of its jobs is live: a run may have ten
//! million jobs, and a guest has 128 MiB.

use crate::JobId;

/// Jobs of a page: few, since one long job keeps all of its page.
const PAGE: usize = 64;

struct Page<T> {
    /// Empty while none is live.
    jobs: Box<[Option<Box<T>>]>,
    live: usize,
}

/// What there is of each live job, by id.
pub(super) struct Live<T> {
    pages: Vec<Page<T>>,
    live: usize,
}

impl<T> Live<T> {
    pub(super) fn new() -> Live<T> {
        Live { pages: Vec::new(), live: 0 }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.live
    }

    pub(super) fn get(&self, id: JobId) -> Option<&T> {
        self.pages.get(id as usize / PAGE)?.jobs.get(id as usize % PAGE)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        self.pages.get_mut(id as usize / PAGE)?.jobs.get_mut(id as usize % PAGE)?.as_deref_mut()
    }

    /// A job that is not live yet comes.
    pub(super) fn insert(&mut self, id: JobId, job: T) {
        let (page, at) = (id as usize / PAGE, id as usize % PAGE);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || Page { jobs: Box::default(), live: 0 });
        }
        let page = &mut self.pages[page];
        if page.live == 0 {
            page.jobs = (0..PAGE).map(|_| None).collect();
        }
        let before = page.jobs[at].replace(Box::new(job));
        let new = usize::from(before.is_none());
        page.live += new;
        self.live += new;
    }

    pub(super) fn remove(&mut self, id: JobId) {
        let Some(page) = self.pages.get_mut(id as usize / PAGE) else { return };
        if page.jobs.get_mut(id as usize % PAGE).and_then(Option::take).is_none() {
            return;
        }
        self.live -= 1;
        page.live -= 1;
        if page.live == 0 {
            page.jobs = Box::default();
        }
    }

    /// By id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.jobs.iter().filter_map(Option::as_deref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_there_while_one_of_its_jobs_is_live() {
        let mut live = Live::new();
        for id in [0, 63, 64, 10_000_000] {
            live.insert(id, id);
        }
        let pages = |live: &Live<u32>| live.pages.iter().filter(|page| !page.jobs.is_empty()).count();
        assert_eq!((live.count(), pages(&live), live.get(63), live.get(62)), (4, 3, Some(&63), None));
        [0, 0, 1, 64, 20_000_000].into_iter().for_each(|id| live.remove(id));
        assert_eq!((live.count(), pages(&live), live.get(64)), (2, 2, None));
        *live.get_mut(63).expect("live") = 7;
        live.insert(64, 8);
        assert_eq!(live.iter().copied().collect::<Vec<_>>(), [7, 8, 10_000_000]);
    }
}
