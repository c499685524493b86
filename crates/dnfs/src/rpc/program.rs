//! RPC programs.

/// A program: number, version and the name used in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) version: u32,
}
