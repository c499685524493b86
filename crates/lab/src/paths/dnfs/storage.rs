//! Storage of the path dnfs during a run: the mounts of the database, Millrace's filers if it uses them, and the counters of both.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use dnfs::mount::Observer;
use results::compare::{ProcedureCount, ProofSource};

use super::settings::{self, NAME};
use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::listener;
use crate::measure::kernel_counters::Interfaces;

use crate::paths::filer::Filer;
use crate::paths::filer_loss::{FilerLoss, FilerWatch};
use crate::paths::storage::{Reads, StartOrder, Storage, StorageCounters, add_calls};
use crate::paths::{exec, filers};
use crate::placement::part::Part;

/// Mount path of a part for the database. It must not exist on the host.
pub(super) fn mount_path(part: Part) -> String {
    match part {
        Part::Data => "/millrace-db".to_owned(),
        Part::Share(number) => format!("/millrace-db-{number}"),
        Part::Log => "/millrace-log".to_owned(),
        Part::Archive => "/millrace-archive".to_owned(),
    }
}

/// The storage of one run.
pub(super) struct DnfsStorage {
    /// Millrace's filers; empty on an existing export.
    filers: Vec<(Part, Filer)>,
    /// Each volume's URL with the options of the configuration's tuning.
    mounts: Vec<(Part, String)>,
    prefix: Vec<OsString>,
    proof: ProofSource,
    /// The clients' shared counters, after the database has started.
    observers: Vec<(Part, Observer)>,
    /// Directory of the clients' shared state.
    runtime: PathBuf,
    /// The existing filer, if Millrace did not start it.
    other: Option<OtherFiler>,
}

/// An existing filer that Millrace did not start.
pub(super) struct OtherFiler {
    pub(super) address: SocketAddr,
    /// The comparison's directory on it: name and export.
    pub(super) directory: (String, String),
    watch: FilerWatch,
    /// Its processes, if they are on this host.
    processes: Vec<u32>,
}

impl OtherFiler {
    pub(super) fn new(address: SocketAddr, directory: (String, String)) -> Self {
        Self { address, directory, watch: FilerWatch::new(address), processes: listener::processes_at(address) }
    }

    fn loss(&self, outcome: String) -> LabError {
        let (name, url) = &self.directory;
        let process = self.processes.first().map_or_else(String::new, |pid| format!("process {pid}, "));
        let loss = FilerLoss::new(format!("{url} ({process}{})", self.address), outcome);
        let left = format!("the directory {name} stays on {url}");
        let removal = format!(
            "once the filer is back, the next comparison on {url} from this host removes {name} first; or remove it there by hand"
        );
        LabError::filer_lost(FilerLoss { left, removal, ..loss })
    }
}

impl DnfsStorage {
    /// Storage on Millrace's filers.
    pub(super) fn of_filers(order: &StartOrder<'_>, filers: Vec<(Part, Filer)>) -> Self {
        let urls = filers.iter().map(|(part, filer)| (*part, filer.url().to_owned())).collect();
        Self { filers, ..Self::new(order, urls, ProofSource::FilerReads) }
    }

    /// Storage on existing exports.
    pub(super) fn of_exports(order: &StartOrder<'_>, urls: Vec<(Part, String)>, filer: OtherFiler) -> Self {
        Self { other: Some(filer), ..Self::new(order, urls, ProofSource::ClientReads) }
    }

    fn new(order: &StartOrder<'_>, urls: Vec<(Part, String)>, proof: ProofSource) -> Self {
        let mounts: Vec<(Part, String)> =
            urls.into_iter().map(|(part, url)| (part, settings::on_url(order.tuning.of(NAME), &url))).collect();
        let argument = |(part, url): &(Part, String)| ["--mount".into(), format!("{}={url}", mount_path(*part)).into()];
        let prefix = exec::prefix(order.program, mounts.iter().flat_map(argument).collect());
        let runtime = order.work.runtime().to_owned();
        Self { filers: Vec::new(), mounts, prefix, proof, observers: Vec::new(), runtime, other: None }
    }

    fn client_calls(&self) -> BTreeMap<String, ProcedureCount> {
        let mut counts = BTreeMap::new();
        for (_, observer) in &self.observers {
            let totals = observer.totals();
            add_calls(&mut counts, "READ", &ProcedureCount { calls: totals.read_calls, bytes: totals.read_bytes });
            add_calls(&mut counts, "WRITE", &ProcedureCount { calls: totals.write_calls, bytes: totals.write_bytes });
            add_calls(&mut counts, "COMMIT", &ProcedureCount { calls: totals.commit_calls, bytes: 0 });
        }
        counts
    }
}

impl Storage for DnfsStorage {
    fn command_prefix(&self) -> &[OsString] {
        &self.prefix
    }

    fn database_started(&mut self) -> Result<(), LabError> {
        let directory = &self.runtime;
        for (part, text) in &self.mounts {
            let failed = |detail: String| LabError::Missing {
                what: format!("read the counters of the clients of {text}: {detail}"),
                hint: "the proof of path needs them; is MILLRACE_RUNTIME_DIR on another host's memory?".to_owned(),
            };
            let url = text.parse().map_err(|error: dnfs::UrlError| failed(error.to_string()))?;
            match Observer::open(directory, &url).map_err(|error| failed(error.to_string()))? {
                Some(observer) => self.observers.push((*part, observer)),
                None => return Err(failed("no client has mounted it".to_owned())),
            }
        }
        Ok(())
    }

    fn proof_source(&self) -> ProofSource {
        self.proof.clone()
    }

    fn interfaces(&self) -> Option<Interfaces> {
        Some(if self.filers.is_empty() { Interfaces::Network } else { Interfaces::Loopback })
    }

    fn servers(&self) -> Vec<(Part, u32)> {
        filers::pids(&self.filers)
    }

    fn other_servers(&self) -> Vec<u32> {
        self.other.as_ref().map_or_else(Vec::new, |other| other.processes.clone())
    }

    fn expect_alive(&mut self) -> Result<(), LabError> {
        filers::expect_alive(&mut self.filers)?;
        let lost = self.other.as_mut().and_then(|other| other.watch.lost());
        self.other.as_ref().zip(lost).map_or(Ok(()), |(other, outcome)| Err(other.loss(outcome)))
    }

    fn expect_alive_after_all(&mut self) -> Result<(), LabError> {
        self.expect_alive()?;
        let lost = self.other.as_mut().and_then(|other| other.watch.lost_after_all());
        self.other.as_ref().zip(lost).map_or(Ok(()), |(other, outcome)| Err(other.loss(outcome)))
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let mut all = StorageCounters { client_calls: self.client_calls(), ..StorageCounters::default() };
        filers::count(&self.filers, &mut all)?;
        let (data, others): (Vec<_>, Vec<_>) = self.observers.iter().partition(|(part, _)| part.holds_data());
        all.client_activity = data.into_iter().chain(others).map(|(_, observer)| observer.activity()).collect();
        Ok(all)
    }

    fn reads(&self, _database: &mut Server) -> Result<Reads, LabError> {
        if self.filers.is_empty() {
            let read = |(part, observer): &(Part, Observer)| {
                let totals = observer.totals();
                (*part, totals.read_bytes.saturating_sub(totals.unused_read_bytes))
            };
            return Ok(Reads::of_volumes(self.observers.iter().map(read).collect()));
        }
        let read = |(part, filer): &(Part, Filer)| {
            let stats = filer.stats()?;
            let observers = self.observers.iter().filter(|(of, _)| of == part);
            let unused: u64 = observers.map(|(_, observer)| observer.totals().unused_read_bytes).sum();
            Ok((*part, stats.procedures.get("READ").map_or(0, |read| read.bytes).saturating_sub(unused)))
        };
        Ok(Reads::of_volumes(self.filers.iter().map(read).collect::<Result<_, LabError>>()?))
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        filers::medium_counters(&self.filers)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        self.filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}
