//! Every format on a small text, and every mistake with its place.
