//! The processes of one run, the database and the servers of its files, and their counters.

use std::collections::BTreeMap;
use std::time::Instant;

use results::compare::{CpuTime, DatabaseCounters};

use crate::database::cluster::Server;
use crate::database::engine::Settings;
use crate::database::session::WaitSamples;
use crate::error::LabError;
use crate::host::cgroup::MemoryGroup;
use crate::host::changed_settings::ChangedSettings;
use crate::host::procfs::{self, HostCpu};
use crate::limits::{FILER_OWN_BYTES, SESSION_OWN_BYTES, WAIT_SAMPLE_EVERY};
use crate::measure::kernel_counters::KernelCounters;
use crate::paths::placement::Placement;
use crate::paths::storage::{Reads, Storage, StorageCounters};
use crate::plan::DATABASE;
use crate::run::driver::{Driver, Mark, Second};
use crate::run::kernel_settings;
use crate::run::setup::{Setup, Turn};

/// The parent of all threads of the kernel. Source: `rest_init` in init/main.c of Linux starts it as the second process.
const KERNEL_THREADS: u32 = 2;

/// All counters at one moment.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) database: DatabaseCounters,
    /// Servers and clients of the path.
    pub(crate) storage: StorageCounters,
    /// Bytes read on the path until now.
    pub(crate) reads: Reads,
    pub(crate) cpu: BTreeMap<String, CpuTime>,
    pub(crate) host: HostCpu,
    /// Soft interrupts, context switches, waiting for a processor, bytes on the wire.
    pub(crate) kernel: KernelCounters,
    /// Counters of modelled media; `None` without one.
    pub(crate) medium: Option<media::Counters>,
}

/// Processes of a run. Fields are dropped in this order: the database must end before its
/// storage, because it waits for the storage.
pub(crate) struct RunProcesses {
    server: Server,
    /// The configuration's settings of the kernel; restored before the storage ends.
    read_ahead: Option<ChangedSettings>,
    storage: Box<dyn Storage>,
    /// The same for the network; restored after the storage has ended.
    network: Option<ChangedSettings>,
    /// Limit the memory of the processes above; dropped after them.
    groups: Vec<MemoryGroup>,
}

/// Called with completed seconds; may count the work of the processes.
pub(crate) type OnSeconds<'a> = &'a mut dyn FnMut(&mut RunProcesses, &[Second]) -> Result<(), LabError>;

impl RunProcesses {
    /// Starts storage and database at the place of a configuration's files, with the settings of its tuning.
    pub(crate) fn start(setup: &Setup<'_>, turn: Turn<'_>, placement: &dyn Placement) -> Result<Self, LabError> {
        let (tuning, root) = (setup.plan.tuning_of(turn.arm), setup.work.root());
        let network = kernel_settings::set_network(tuning, root)?;
        let mut storage = placement.start(&setup.start_order(&turn))?;
        let read_ahead = kernel_settings::set_read_ahead(tuning, placement, root)?;
        // Before the settings of the plan, which take precedence.
        let mut knobs = if storage.delays_calls() { setup.place.engine.calls_alone() } else { Settings::new() };
        knobs.extend(tuning.of(DATABASE).iter().map(|(name, value)| (name.clone(), value.to_string())));
        knobs.extend(placement.archive().into_iter().flat_map(|directory| setup.place.engine.archive_settings(&directory)));
        let knobs: Vec<(&str, &str)> = knobs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let log = setup.database_log(turn);
        let server = setup.place.start(storage.command_prefix(), &placement.data(), &knobs, log);
        let server = server.map_err(|error| explained(&mut *storage, error))?;
        storage.database_started()?;
        let groups = hold_memory(setup, turn.order.users, &server, &*storage)?;
        Ok(Self { server, read_ahead, storage, network, groups })
    }

    /// The database.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The storage below it.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Reads all counters.
    pub(crate) fn sample(&mut self, driver: Option<&Driver>) -> Result<Sample, LabError> {
        let servers: Vec<u32> = self.storage.servers().into_iter().map(|(_, pid)| pid).collect();
        let clients = self.storage.clients();
        let mut cpu = BTreeMap::new();
        let database = [self.server.pids(), clients].concat();
        for pid in &database {
            add_cpu(&mut cpu, "database", *pid);
        }
        for pid in servers.iter().chain(&self.storage.other_servers()) {
            add_cpu(&mut cpu, "filer", *pid);
        }
        if self.storage.works_in_kernel() {
            add_cpu(&mut cpu, "kernel", KERNEL_THREADS);
        }
        if let Some(driver) = driver {
            add_cpu(&mut cpu, "driver", driver.pid());
        }
        let kernel = KernelCounters::read(&[
            ("database", database),
            ("filer", servers),
            ("driver", driver.map(Driver::pid).into_iter().collect()),
        ]);
        let (host, at) = (procfs::host_cpu(), Instant::now());
        let storage = self.storage.counters()?;
        let reads = self.reads()?;
        let medium = self.storage.medium_counters()?;
        let database = self.server.session().counters()?;
        Ok(Sample { at, database, storage, reads, cpu, host, kernel, medium })
    }

    /// Bytes read on the path until now.
    pub(crate) fn reads(&mut self) -> Result<Reads, LabError> {
        self.storage.reads(&mut self.server)
    }

    /// Waits for a mark of the driver, and samples the wait events of the sessions meanwhile.
    pub(crate) fn await_mark(
        &mut self,
        driver: &mut Driver,
        awaited: Mark,
        waits: &mut WaitSamples,
        on_seconds: OnSeconds<'_>,
    ) -> Result<(), LabError> {
        loop {
            let mark = driver.next_mark(WAIT_SAMPLE_EVERY)?;
            let seconds = driver.take_seconds();
            if !seconds.is_empty() {
                self.groups.iter().try_for_each(MemoryGroup::hold_page_cache)?;
            }
            on_seconds(self, &seconds)?;
            match mark {
                Some(mark) if mark == awaited => return Ok(()),
                Some(_) => {}
                None => {
                    self.server.expect_alive()?;
                    self.storage.expect_alive()?;
                    self.server.session().sample_waits(waits)?;
                }
            }
        }
    }

    /// Removes the memory limits of the processes, after the end of the measurement.
    pub(crate) fn lift_memory_limits(&self) -> Result<(), LabError> {
        self.groups.iter().try_for_each(MemoryGroup::lift)
    }

    /// The given error, or the loss of the storage or the database that explains it.
    pub(crate) fn explained(&mut self, error: LabError) -> LabError {
        match explained(&mut *self.storage, error) {
            error @ (LabError::Interrupted | LabError::FilerLost(_)) => error,
            error => self.server.expect_alive().err().unwrap_or(error),
        }
    }

    /// An error if the storage was lost.
    pub(crate) fn expect_storage(&mut self) -> Result<(), LabError> {
        self.storage.expect_alive()
    }

    /// Stops everything cleanly, the database first; exit codes must be 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        let Self { server, read_ahead, mut storage, network, groups } = self;
        server.stop().map_err(|error| explained(&mut *storage, error))?;
        drop(read_ahead);
        storage.stop()?;
        drop((network, groups));
        Ok(())
    }
}

/// Adds the processor time of a process and its children to that of its owner.
fn add_cpu(owners: &mut BTreeMap<String, CpuTime>, owner: &str, pid: u32) {
    let time = procfs::tree_cpu(pid);
    let all = owners.entry(owner.to_owned()).or_default();
    *all = CpuTime { user_s: all.user_s + time.user_s, sys_s: all.sys_s + time.sys_s };
}

fn explained(storage: &mut dyn Storage, error: LabError) -> LabError {
    match error {
        LabError::Interrupted | LabError::FilerLost(_) => error,
        error => storage.expect_alive_after_all().err().unwrap_or(error),
    }
}

/// Limits the page cache of database and servers, if the plan requires it.
fn hold_memory(setup: &Setup<'_>, users: u32, server: &Server, storage: &dyn Storage) -> Result<Vec<MemoryGroup>, LabError> {
    let Some(cache) = setup.plan.page_cache_bytes else { return Ok(Vec::new()) };
    let own = setup.buffers_bytes + setup.place.engine.own_bytes() + u64::from(users) * SESSION_OWN_BYTES;
    let group = MemoryGroup::make("database", own, cache)?;
    for first in server.pids() {
        for pid in procfs::tree(first) {
            // A child that has ended in the meantime needs no limit.
            let held = group.add(pid);
            if pid == first {
                held?;
            }
        }
    }
    let mut groups = vec![group];
    for (part, pid) in storage.servers() {
        let group = MemoryGroup::make(&format!("filer-{}", part.name()), FILER_OWN_BYTES, cache)?;
        group.add(pid)?;
        groups.push(group);
    }
    Ok(groups)
}
