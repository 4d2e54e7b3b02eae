//! CLWP: which node a job goes to (Geng et al. 2020; the shape is the paper's, the sum is our reconstruction).

/// How the similarities of a node's residents become its score.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// By their tasks on the node, over the node's GPUs: how loaded it is counts too.
    LoadSum,
    /// The mean over its tasks.
    Mean,
    /// The greatest.
    Max,
}

impl Aggregate {
    /// The words by which configurations name the ways.
    pub const WORDS: &'static [&'static str] = &["load-sum", "mean", "max"];

    /// The way of a word of [`Aggregate::WORDS`].
    pub fn named(word: &str) -> Aggregate {
        match word {
            "mean" => Aggregate::Mean,
            "max" => Aggregate::Max,
            _ => Aggregate::LoadSum,
        }
    }

    /// The score of a node of so many GPUs whose resident jobs have these (tasks there, similarity): 0 is an empty one.
    pub fn score(self, residents: &[(usize, f64)], gpus: usize) -> f64 {
        let sum: f64 = residents.iter().map(|(tasks, similarity)| *tasks as f64 * similarity).sum();
        let tasks: usize = residents.iter().map(|(tasks, _)| tasks).sum();
        match self {
            Aggregate::LoadSum => sum / gpus as f64,
            Aggregate::Mean if tasks == 0 => 0.0,
            Aggregate::Mean => sum / tasks as f64,
            Aggregate::Max => residents.iter().map(|(_, similarity)| *similarity).fold(0.0, f64::max),
        }
    }
}
