//! A set of nodes: what free nodes are found by.

use crate::NodeId;

/// A set of nodes, by id: a bit each.
#[derive(Clone, Default)]
pub(crate) struct NodeSet {
    words: Vec<u64>,
    count: usize,
}

impl NodeSet {
    pub(crate) fn flip(&mut self, node: NodeId, contains: bool) {
        let (word, bit) = (node as usize / 64, 1u64 << (node % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] ^= bit;
        self.count = if contains { self.count + 1 } else { self.count - 1 };
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The lowest.
    pub(crate) fn first(&self) -> Option<NodeId> {
        if self.count == 0 { None } else { self.iter().next() }
    }

    /// Ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(index as NodeId * 64 + bit)
            })
        })
    }
}
