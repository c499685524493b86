//! Files that the database uses through the kernel: directories of this host, whatever is mounted there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use results::compare::{ProofSource, Served};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::serving::Serving;

use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage::{Reads, StartOrder, Storage};
use crate::paths::{exec, medium};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::part::Part;
use crate::placement::restore::Method;
use crate::sys::User;

/// Location of files on existing storage.
pub(super) const ON_A_TARGET: &str = "directories of the target's file system";

/// Directories of this host.
pub(super) struct KernelFiles {
    pub(super) directories: Directories,
}

impl KernelFiles {
    /// In a new directory below a target. Also returns the names of directories that dead comparisons left there.
    pub(super) fn below(target: &Path, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let (directories, removed) = Directories::below(target, order.parts, order.user)?;
        Ok((Box::new(Self { directories }), removed))
    }
}

impl Placement for KernelFiles {
    fn parts(&self) -> &[Part] {
        self.directories.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        self.directories.of(part)
    }

    fn method(&self, own: Method) -> &'static str {
        self.directories.method(own).name()
    }

    fn restore(&mut self, state: &KeptState, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.directories.restore(state, &|part| self.directories.of(part), own, user, progress)
    }

    fn cached_files(&self) -> Option<&Path> {
        Some(self.directories.root())
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        Ok(Box::new(KernelStorage::start(&self.directories, order)?))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.directories.clear()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        self.directories.remove()
    }
}

/// Storage in which the kernel serves the files; only a modelled medium may delay it.
pub(super) struct KernelStorage {
    prefix: Vec<OsString>,
    /// Files with the states of the modelled media.
    media: Vec<PathBuf>,
    /// The parent directory of the files.
    root: PathBuf,
    /// What serves it, after the database has started.
    serving: Serving,
}

impl KernelStorage {
    /// The storage for the directories of one run.
    pub(super) fn start(directories: &Directories, order: &StartOrder<'_>) -> Result<Self, LabError> {
        let (mut words, mut media) = (Vec::new(), Vec::new());
        if let Some(medium) = order.medium {
            for part in directories.parts() {
                let directory = directories.of(*part);
                let directory = std::fs::canonicalize(&directory).map_err(LabError::file("find", &directory))?;
                media.push(order.work.runtime().join(medium::state_name(&directory, medium)?));
                let mut argument = directory.into_os_string();
                argument.push(format!("={medium}"));
                words.extend(["--local-medium".into(), argument]);
            }
        }
        let root = directories.root().to_owned();
        Ok(Self { prefix: exec::prefix(order.program, words), media, root, serving: Serving::default() })
    }
}

impl Storage for KernelStorage {
    fn command_prefix(&self) -> &[OsString] {
        &self.prefix
    }

    fn database_started(&mut self) -> Result<(), LabError> {
        // Not before: a client without open files may have closed its connections.
        self.serving = Serving::of(&self.root);
        Ok(())
    }

    fn clients(&self) -> Vec<u32> {
        self.serving.clients()
    }

    fn other_servers(&self) -> Vec<u32> {
        self.serving.servers()
    }

    fn served(&self) -> Option<Served> {
        self.serving.record()
    }

    fn delays_calls(&self) -> bool {
        !self.media.is_empty()
    }

    fn proof_source(&self) -> ProofSource {
        ProofSource::ReadCalls
    }

    fn reads(&self, database: &mut Server) -> Result<Reads, LabError> {
        Ok(Reads { by_volume: Vec::new(), of_data: database.bytes_from_read_calls()? })
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        Ok(medium::of_states(&self.media))
    }
}
