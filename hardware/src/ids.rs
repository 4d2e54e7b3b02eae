//! Ids of jobs, nodes, GPUs, their types, services and workloads: dense numbers that cannot be mixed up with each other or with counts.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The id with this number.
            pub const fn new(number: u32) -> $name {
                $name(number)
            }

            /// The id of the item at this index.
            ///
            /// # Panics
            /// If the index does not fit 32 bits.
            pub fn at(index: usize) -> $name {
                $name(u32::try_from(index).expect("fewer than 2^32 items"))
            }

            /// The first `count` ids.
            ///
            /// # Panics
            /// If the count does not fit 32 bits.
            pub fn first(count: usize) -> impl DoubleEndedIterator<Item = $name> + Clone {
                (0..u32::try_from(count).expect("fewer than 2^32 items")).map($name)
            }

            /// The ids with these numbers; reuses the list.
            pub fn list(numbers: Vec<u32>) -> Vec<$name> {
                numbers.into_iter().map($name).collect()
            }

            /// Its number.
            pub const fn number(self) -> u32 {
                self.0
            }

            /// Its number, as the index of a list that has an item for each id.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        // As the number alone, in messages and in what is hashed.
        impl fmt::Debug for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, to)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, to)
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;
            fn index(&self, id: $name) -> &T {
                &self[id.index()]
            }
        }

        impl<T> IndexMut<$name> for [T] {
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.index()]
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;
            fn index(&self, id: $name) -> &T {
                &self[id.index()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.index()]
            }
        }
    };
}

id! {
    /// A job. Ids are dense, in the order in which jobs are submitted; the experiment's tie-break orders those of one
    /// instant.
    JobId
}

id! {
    /// A node of a [fleet](crate::Fleet). Ids are dense.
    NodeId
}

id! {
    /// A GPU of a [fleet](crate::Fleet). Ids are dense, node by node.
    GpuId
}

id! {
    /// A type of GPU: an index into [`Fleet::types`](crate::Fleet::types).
    TypeId
}

id! {
    /// A service: an index into [`Fleet::services`](crate::Fleet::services).
    ServiceId
}

id! {
    /// A queue: an index into [`Fleet::queues`](crate::Fleet::queues).
    QueueId
}

id! {
    /// A workload: an index into [`Profile::workloads`](crate::Profile::workloads). Policies get other numbers, in the
    /// order in which workloads are introduced to them.
    WorkloadId
}

id! {
    /// A part that GPUs can be cut into: an index into the profiles of [`Fleet::parts`](crate::Fleet::parts).
    PartId
}
