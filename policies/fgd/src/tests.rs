//! Places on small nodes, by hand.
