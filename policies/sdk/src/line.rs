//! Jobs in order, with what those before a place ask for together.

use std::cmp::Ordering;

use crate::JobId;

/// Where a job stands in an order, and its id.
pub type Stand<K> = (K, JobId);

/// Most entries of a block.
const BLOCK: usize = 128;

/// Neighbours.
struct Block<K> {
    /// Where each stands, and what it asks for; never empty.
    entries: Vec<(Stand<K>, u32)>,
    /// What they ask for together.
    sum: u64,
}

impl<K> Block<K> {
    fn of(entries: Vec<(Stand<K>, u32)>) -> Block<K> {
        let sum = sum_of(&entries);
        Block { entries, sum }
    }
}

fn sum_of<K>(entries: &[(Stand<K>, u32)]) -> u64 {
    entries.iter().map(|(_, asks)| u64::from(*asks)).sum()
}

/// Jobs in an order that each function is given anew: it may change with time, but not for those that stand here.
pub(crate) struct Line<K> {
    blocks: Vec<Block<K>>,
    total: u64,
}

impl<K: Copy> Line<K> {
    pub(crate) fn new() -> Line<K> {
        Line { blocks: Vec::new(), total: 0 }
    }

    /// What all ask for together.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The number of blocks that begin before this, of the entries of the last of these that stand before it.
    fn find(&self, stand: &Stand<K>, order: impl Fn(&Stand<K>, &Stand<K>) -> Ordering) -> (usize, usize) {
        let blocks = self.blocks.partition_point(|block| order(&block.entries[0].0, stand).is_lt());
        let Some(last) = blocks.checked_sub(1) else { return (0, 0) };
        (blocks, self.blocks[last].entries.partition_point(|(other, _)| order(other, stand).is_lt()))
    }

    pub(crate) fn insert(&mut self, stand: Stand<K>, asks: u32, order: impl Fn(&Stand<K>, &Stand<K>) -> Ordering) {
        let (blocks, place) = self.find(&stand, order);
        self.total += u64::from(asks);
        let at = blocks.saturating_sub(1);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block::of(vec![(stand, asks)]));
            return;
        };
        block.entries.insert(place, (stand, asks));
        block.sum += u64::from(asks);
        if block.entries.len() > BLOCK {
            let tail = Block::of(block.entries.split_off(BLOCK / 2));
            block.sum -= tail.sum;
            self.blocks.insert(at + 1, tail);
        }
    }

    /// # Panics
    /// Where it does not stand there.
    pub(crate) fn remove(&mut self, stand: &Stand<K>, order: impl Fn(&Stand<K>, &Stand<K>) -> Ordering) {
        let (blocks, place) = self.find(stand, order);
        // The first of a block stands behind all of the block before.
        let (at, place) = match blocks.checked_sub(1) {
            Some(last) if place < self.blocks[last].entries.len() => (last, place),
            _ => (blocks, 0),
        };
        let found = self.blocks.get(at).map(|block| block.entries[place].0.1);
        assert!(found == Some(stand.1), "job {} stands elsewhere", stand.1);
        let block = &mut self.blocks[at];
        let (_, asks) = block.entries.remove(place);
        block.sum -= u64::from(asks);
        self.total -= u64::from(asks);
        if block.entries.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// What those ask for that stand before this.
    pub(crate) fn before(&self, stand: &Stand<K>, order: impl Fn(&Stand<K>, &Stand<K>) -> Ordering) -> u64 {
        let (blocks, place) = self.find(stand, order);
        let Some(last) = blocks.checked_sub(1) else { return 0 };
        let whole: u64 = self.blocks[..last].iter().map(|block| block.sum).sum();
        whole + sum_of(&self.blocks[last].entries[..place])
    }

    pub(crate) fn first(&self) -> Option<&Stand<K>> {
        self.blocks.first().map(|block| &block.entries[0].0)
    }

    /// The first behind this.
    pub(crate) fn next(&self, stand: &Stand<K>, order: impl Fn(&Stand<K>, &Stand<K>) -> Ordering) -> Option<&Stand<K>> {
        let behind = |other: &Stand<K>| order(other, stand).is_gt();
        let at = self.blocks.partition_point(|block| block.entries.last().is_none_or(|(last, _)| !behind(last)));
        let entries = &self.blocks.get(at)?.entries;
        Some(&entries[entries.partition_point(|(other, _)| !behind(other))].0)
    }

    /// The first for which this holds of it and of what is asked for up to it, itself included; it holds for all behind it too.
    pub(crate) fn first_where(&self, holds: impl Fn(&Stand<K>, u64) -> bool) -> Option<(Stand<K>, u32)> {
        let sum_before = |at: usize| self.blocks[..at].iter().map(|block| block.sum).sum::<u64>();
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = low.midpoint(high);
            let block = &self.blocks[middle];
            let last = &block.entries[block.entries.len() - 1].0;
            if holds(last, sum_before(middle + 1)) { high = middle } else { low = middle + 1 }
        }
        let mut sum = sum_before(low);
        self.blocks.get(low)?.entries.iter().copied().find(|(stand, asks)| {
            sum += u64::from(*asks);
            holds(stand, sum)
        })
    }

    /// Those who stand here, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stand<K>> {
        self.blocks.iter().flat_map(|block| block.entries.iter().map(|(stand, _)| stand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    #[test]
    fn a_line_is_a_sorted_list() {
        let mut draws = Draws::new(5);
        let (mut line, mut list): (Line<u64>, Vec<(Stand<u64>, u32)>) = (Line::new(), Vec::new());
        let order = Stand::<u64>::cmp;
        for id in 0..20_000_u32 {
            let stand = (draws.below(300) as u64, id);
            if list.len() < 1_000 || draws.below(2) == 0 {
                let asks = 1 + draws.below(8) as u32;
                line.insert(stand, asks, order);
                list.insert(list.partition_point(|(other, _)| *other < stand), (stand, asks));
            } else {
                let (gone, _) = list.remove(draws.below(list.len()));
                line.remove(&gone, order);
            }
            let at = list.partition_point(|(other, _)| *other < stand);
            let before = sum_of(&list[..at]);
            assert_eq!(line.before(&stand, order), before);
            assert_eq!(line.first(), list.first().map(|(first, _)| first));
            assert_eq!(line.next(&stand, order), list.iter().map(|(next, _)| next).find(|next| **next > stand));
            let over = |other: &Stand<u64>, sum: u64| *other > stand && sum > before + 20;
            let mut sum = 0;
            let first = list.iter().find(|(other, asks)| {
                sum += u64::from(*asks);
                over(other, sum)
            });
            assert_eq!(line.first_where(over).as_ref(), first);
            assert_eq!(line.total(), sum_of(&list));
        }
        assert!(line.iter().eq(list.iter().map(|(stand, _)| stand)));
        assert!(line.blocks.len() > 10, "{} blocks", line.blocks.len());
    }
}
