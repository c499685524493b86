//! The initial state of every run: created, loaded and shut down once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::database::cluster::ClusterPlace;
use crate::error::LabError;
use crate::paths::exec;
use crate::placement::restore;
use crate::placement::workdir::WorkDir;
use crate::placement::{DATA, space_name};
use crate::plan::Plan;
use crate::run::driver::Orders;
use crate::run::progress::Progress;
use crate::sys;

/// Result of the load.
pub(crate) struct Loaded {
    pub(crate) database_bytes: u64,
    pub(crate) buffers_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) version: String,
    pub(crate) settings: BTreeMap<String, String>,
}

/// Creates the cluster, loads it once and leaves it, cleanly shut down, in `master`.
pub(crate) fn load(
    plan: &Plan,
    work: &WorkDir,
    place: &ClusterPlace,
    program: &Path,
    progress: &mut Progress<'_>,
) -> Result<Loaded, LabError> {
    let logs = work.path("logs");
    let data = work.path("master").join(DATA);
    progress.step("making a database cluster");
    place.make(&data, logs.join("make-database.log"))?;
    let mut server = place.start(&[], &data, place.engine.load_overrides(), logs.join("load-database.log"))?;
    progress.step(&format!("loading {} warehouses", plan.warehouses));
    let dsn = place.dsn();
    let orders = Orders { program, dsn: &dsn, logs: &logs };
    orders.load(plan.warehouses, plan.threads.max(2), &mut |line| progress.within(&format!("loading: {line}")))?;
    let session = server.session();
    if plan.shares_most() > 1 {
        progress.step(&format!("spreading tables and indexes over {} tablespaces", plan.shares_most()));
        session
            .spread(plan.shares_most(), &|number| work.directory_for(&format!("master/{}", space_name(number)), &place.user))?;
    }
    progress.step("cleaning up after the load and shutting down");
    session.settle()?;
    let (database_bytes, block_bytes) = (session.database_bytes()?, session.block_bytes()?);
    server.stop()?;
    let buffers_bytes = plan.buffers_bytes(database_bytes);
    place.write_settings(&data, &place.engine.settings(buffers_bytes, plan.users_most()))?;

    // Started once with the settings of the runs, to read them back and to show that the server accepts them.
    let mut server = place.start(&[], &data, &[], logs.join("load-database.log"))?;
    let session = server.session();
    let (version, settings) = (session.server_version()?, session.changed_settings()?);
    server.stop()?;
    restore::sync(&data)?;
    let size = restore::tree_size(&work.path("master"));
    progress.expect_bytes(size.bytes);
    let free = sys::free_bytes(&data).map_err(LabError::file("inspect", &data))?;
    if free < size.bytes + plan.growth_bytes() {
        return Err(LabError::Missing {
            what: format!("copy the loaded state of {} MiB: {} MiB are free", size.bytes >> 20, free >> 20),
            hint: "name a larger place with --work, or load fewer warehouses with --warehouses".to_owned(),
        });
    }
    Ok(Loaded { database_bytes, buffers_bytes, block_bytes, version, settings })
}

/// Copies this program and the preload library to a directory that the database's user can read.
pub(crate) fn install(program: &Path, work: &WorkDir) -> Result<PathBuf, LabError> {
    let target = work.path("bin").join("millrace");
    let mut files = vec![(program.to_owned(), target.clone())];
    if let Some(library) = exec::preload_library(program) {
        files.push((library, work.path("bin").join(exec::PRELOAD_LIBRARY)));
    }
    for (from, to) in files {
        fs::copy(&from, &to).map_err(LabError::file("copy program", &from))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(LabError::file("set permissions of", &to))?;
    }
    Ok(target)
}
