//! Seeded randomness, virtual clock, byte pipes that delay, split and cut. Tests only, never shipped.
