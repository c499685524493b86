//! The settings of a target's connections.

use crate::limits::COMMAND_WINDOW_MAX;
use crate::login::Offer;

/// The settings of a target's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The parameters that the target offers in the login.
    pub offer: Offer,
    /// Commands that a session may have in progress, up to [`COMMAND_WINDOW_MAX`].
    pub command_window: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { offer: Offer::default(), command_window: COMMAND_WINDOW_MAX / 2 }
    }
}
