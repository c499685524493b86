//! The parts of a connection.

use super::host::Challenge;
use super::receiver::Receiver;
use super::replies::Replies;
use super::sender::Sender;
use super::settings::Settings;
use super::tasks::Table;
use std::sync::Arc;

/// Creates the parts of a new connection.
#[must_use]
pub fn connect(settings: Settings, challenge: Challenge) -> (Receiver, Replies, Sender) {
    let table = Arc::new(Table::new(settings.command_window));
    let replies = Replies { table: Arc::clone(&table) };
    (Receiver::new(settings, challenge, replies.clone()), replies, Sender::new(table))
}
