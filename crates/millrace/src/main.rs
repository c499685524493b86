//! The front door: arguments, wiring, exit codes.
fn main() {}
