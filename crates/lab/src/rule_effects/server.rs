//! Applies the kept settings to a running server, and writes the file that reverts them.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use orders::postgres::Postgres;
use tokio_postgres::Client;
use tune::change::{SettingChange, alter_system, alter_system_reset};

use super::effect::Effect;
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

/// Applies the settings of the kept changes to the server of `dsn` with ALTER SYSTEM.
///
/// **Durability**: `revert.sql` in `out` is synced before the first setting is changed.
///
/// # Errors
/// The server cannot be reached or refuses a statement, or a file cannot be written.
pub fn give(dsn: &str, effects: &[Effect], out: &Path) -> Result<Given, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LabError::file("start a runtime for", "the session with the server"))?;
    let kept = effects.iter().filter(|effect| effect.kept);
    let settings: Vec<&SettingChange> = kept.flat_map(|effect| &effect.change.settings).collect();
    runtime.block_on(async {
        let session = async { Postgres::parse(dsn)?.connect().await };
        let client = session.await.map_err(|source| LabError::Session { source })?;
        alter(&client, &settings, out.join("revert.sql")).await
    })
}

async fn alter(client: &Client, settings: &[&SettingChange], revert: PathBuf) -> Result<Given, LabError> {
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
    Ok(Given { settings: settings.len(), revert, after_restart: later.iter().map(|row| row.get(0)).collect() })
}

fn write_synced(file: &Path, text: &str) -> std::io::Result<()> {
    let mut made = File::create_new(file)?;
    made.write_all(text.as_bytes())?;
    made.sync_all()
}
