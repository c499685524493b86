//! Changes settings of a running server of PostgreSQL, and writes the file that reverts them.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tune::change::{SettingChange, alter_system, alter_system_reset};

use super::client::{Client, with_client};
use crate::error::LabError;

/// Changes settings of the server of `dsn` with ALTER SYSTEM. Returns those that take effect only after a restart.
///
/// **Durability**: `revert` is synced before the first setting is changed.
///
/// # Errors
/// The server cannot be reached or refuses a statement, or the file cannot be written.
pub(super) fn apply(dsn: &str, settings: &[&SettingChange], revert: PathBuf) -> Result<Vec<String>, LabError> {
    with_client(dsn, "the session with the server", async |client| alter(client, settings, revert).await)
}

async fn alter(client: &Client, settings: &[&SettingChange], revert: PathBuf) -> Result<Vec<String>, LabError> {
    let mut back = Vec::new();
    for SettingChange { key, .. } in settings {
        let set = "SELECT setting FROM pg_file_settings WHERE name = $1 AND sourcefile LIKE '%postgresql.auto.conf'";
        let before = client.query_opt(set, &[key]).await.map_err(LabError::database("read what ALTER SYSTEM has set"))?;
        let before: Option<String> = before.map(|row| row.get(0));
        back.push(before.map_or_else(|| alter_system_reset(key), |value| alter_system(key, &value)));
    }
    back.push("SELECT pg_reload_conf();\n".to_owned());
    write_synced(&revert, &back.join("\n")).map_err(LabError::file("write", &revert))?;
    for SettingChange { key, to, .. } in settings {
        client.batch_execute(&alter_system(key, to)).await.map_err(LabError::database("change a setting by ALTER SYSTEM"))?;
    }
    client.batch_execute("SELECT pg_reload_conf()").await.map_err(LabError::database("reload the settings"))?;
    let names: Vec<&str> = settings.iter().map(|change| change.key.as_str()).collect();
    let later = "SELECT name FROM pg_settings WHERE name = ANY($1) AND context = 'postmaster' ORDER BY name";
    let later = client.query(later, &[&names]).await.map_err(LabError::database("read which settings wait for a restart"))?;
    Ok(later.iter().map(|row| row.get(0)).collect())
}

fn write_synced(file: &Path, text: &str) -> std::io::Result<()> {
    let mut made = File::create_new(file)?;
    made.write_all(text.as_bytes())?;
    made.sync_all()
}
