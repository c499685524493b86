//! How a target's connections work.

use crate::limits::COMMAND_WINDOW_MAX;
use crate::login::Offer;

/// How a target's connections work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is offered in the login.
    pub offer: Offer,
    /// Commands that a session may have under way, up to [`COMMAND_WINDOW_MAX`].
    pub command_window: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { offer: Offer::default(), command_window: COMMAND_WINDOW_MAX / 2 }
    }
}
