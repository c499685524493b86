//! Applies the kept settings to a running server, and writes the file that reverts them.

use std::path::{Path, PathBuf};

use tune::change::SettingChange;

use super::effect::Effect;
use super::target;
use crate::error::LabError;

/// Result of applying settings to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Number of settings.
    pub settings: usize,
    /// File with the statements that revert them.
    pub revert: PathBuf,
    /// Settings that take effect only after a restart of the server.
    pub after_restart: Vec<String>,
}

/// Applies the settings of the kept changes to the server of `dsn`.
///
/// **Durability**: `revert.sql` in `out` is synced before the first setting is changed.
///
/// # Errors
/// The server cannot be reached or refuses a statement, or a file cannot be written.
pub fn give(dsn: &str, effects: &[Effect], out: &Path) -> Result<Given, LabError> {
    let kept = effects.iter().filter(|effect| effect.kept);
    let settings: Vec<&SettingChange> = kept.flat_map(|effect| &effect.change.settings).collect();
    let revert = out.join("revert.sql");
    let after_restart = (target::of_rules()?.settings.apply)(dsn, &settings, revert.clone())?;
    Ok(Given { settings: settings.len(), revert, after_restart })
}
