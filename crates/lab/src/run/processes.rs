//! The processes of one run, the database and whatever serves it, and what is counted there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use dnfs::activity::Activity;
use dnfs::mount::Observer;
use results::compare::{CpuTime, DatabaseCounters, ProcedureCount};

use crate::database::archive;
use crate::database::cluster::Server;
use crate::database::counters::Looks;
use crate::error::LabError;
use crate::host::cgroup::MemoryGroup;
use crate::host::procfs::{self, HostCpu};
use crate::limits::{DATABASE_OWN_BYTES, FILER_OWN_BYTES, SESSION_OWN_BYTES, WAIT_SAMPLE_EVERY};
use crate::measure::kernel_counters::Pulse;
use crate::measure::proof::Witness;
use crate::placement::workdir::WorkDir;
use crate::placement::{Ground, Mounting, Part};
use crate::run::driver::{Driver, Mark, Second};
use crate::run::filer::Filer;
use crate::run::storage::Storage;
use crate::run::{Bench, Turn};

/// Everything that is counted, at one moment.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) database: DatabaseCounters,
    /// Calls our filers answered, all of them together.
    pub(crate) filer: BTreeMap<String, ProcedureCount>,
    /// How our filers keep their promises, the first one's word; they share one set of options. None without one.
    pub(crate) durability: Option<String>,
    /// Connections open to our filers of the data; none without one.
    pub(crate) connections: Option<u64>,
    /// Calls of our own client, all volumes together.
    pub(crate) client: BTreeMap<String, ProcedureCount>,
    pub(crate) cpu: BTreeMap<String, CpuTime>,
    pub(crate) host: HostCpu,
    /// What our own clients did, one entry for each volume, the data's first.
    pub(crate) activity: Vec<Activity>,
    /// What the kernel counts beside.
    pub(crate) pulse: Pulse,
    /// What modelled media counted; none without one.
    pub(crate) medium: Option<media::Counters>,
    /// Bytes read from each volume until now; empty when nobody counts them.
    pub(crate) volume_reads: Vec<(Part, u64)>,
    /// Bytes of the data read on the path until now; none when nobody counts them.
    pub(crate) path_read_bytes: Option<u64>,
}

/// Processes of a run. Fields are dropped in this order: the database must go before the
/// filers, for it waits for its storage.
pub(crate) struct Stage {
    server: Server,
    storage: Storage,
    observers: Vec<(Part, Observer)>,
    witness: Witness,
    /// Hold the memory of the processes above; dropped after them.
    _groups: Vec<MemoryGroup>,
}

/// Who is told of seconds that are over, and may look at the stage.
pub(crate) type Told<'a> = &'a mut dyn FnMut(&mut Stage, &[Second]) -> Result<(), LabError>;

/// The server's log of a run.
pub(crate) fn database_log(work: &WorkDir, turn: Turn<'_>) -> PathBuf {
    work.path("logs").join(format!("database-{}-{}.log", turn.sequence, turn.arm.path.kind))
}

impl Stage {
    /// Starts filers and database on the ground of an arm, with the knobs of its tuning.
    pub(crate) fn start(bench: &Bench<'_>, turn: Turn<'_>, ground: &Ground) -> Result<Self, LabError> {
        let storage = Storage::start(bench, turn.arm, turn.sequence, ground)?;
        let tuning = bench.plan.tuning_of(turn.arm);
        let mut knobs: Vec<(String, String)> =
            tuning.database.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        knobs.extend(ground.archive().into_iter().flat_map(|directory| archive::settings(&directory)));
        let knobs: Vec<(&str, &str)> = knobs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let log = database_log(bench.work, turn);
        let server = bench.place.start(&storage.prefix, &ground.data(), &knobs, log)?;
        let observers = observe(bench, &storage.mountings)?;
        let witness = match ground {
            Ground::Host(_) => Witness::ReadCalls,
            Ground::Filer(_) => Witness::FilerReads,
            Ground::Export(_) => Witness::ClientReads,
        };
        let groups = hold_memory(bench, turn.order.users, &server, &storage)?;
        Ok(Self { server, storage, observers, witness, _groups: groups })
    }

    /// The database.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// What the database's reads are held against.
    pub(crate) fn witness(&self) -> Witness {
        self.witness
    }

    /// Counts everything now.
    pub(crate) fn sample(&mut self, driver: Option<&Driver>) -> Result<Sample, LabError> {
        let mut cpu = BTreeMap::from([("database".to_owned(), procfs::tree_cpu(self.server.pid()))]);
        for (_, filer) in &self.storage.filers {
            let time = procfs::tree_cpu(filer.pid());
            let all: &mut CpuTime = cpu.entry("filer".to_owned()).or_default();
            *all = CpuTime { user_s: all.user_s + time.user_s, sys_s: all.sys_s + time.sys_s };
        }
        if let Some(driver) = driver {
            cpu.insert("driver".to_owned(), procfs::tree_cpu(driver.pid()));
        }
        let pulse = self.pulse(driver);
        let host = procfs::host_cpu();
        let at = Instant::now();
        let mut filer: BTreeMap<String, ProcedureCount> = BTreeMap::new();
        let (mut connections, mut durability) = (None, None);
        for (part, one) in &self.storage.filers {
            let stats = one.stats()?;
            if part.holds_data() {
                connections = Some(connections.unwrap_or(0) + stats.connections);
            }
            durability.get_or_insert(stats.durability);
            for (name, count) in stats.procedures {
                add(&mut filer, &name, &ProcedureCount { calls: count.calls, bytes: count.bytes });
            }
        }
        let client = self.client_counts();
        let volume_reads = self.volume_reads()?;
        let path_read_bytes = self.data_reads(&volume_reads)?;
        let medium = self.storage.medium_counters()?;
        let database = self.server.session().counters()?;
        let activity = self.activity();
        Ok(Sample {
            at,
            database,
            filer,
            durability,
            connections,
            client,
            cpu,
            host,
            activity,
            pulse,
            medium,
            volume_reads,
            path_read_bytes,
        })
    }

    fn activity(&self) -> Vec<Activity> {
        let (data, others): (Vec<_>, Vec<_>) = self.observers.iter().partition(|(part, _)| part.holds_data());
        data.into_iter().chain(others).map(|(_, observer)| observer.activity()).collect()
    }

    fn pulse(&self, driver: Option<&Driver>) -> Pulse {
        let filers = self.storage.filers.iter().map(|(_, filer)| filer.pid()).collect();
        Pulse::take(&[
            ("database", vec![self.server.pid()]),
            ("filer", filers),
            ("driver", driver.map(Driver::pid).into_iter().collect()),
        ])
    }

    /// Bytes on the wire are counted on a path over a network; on which interface depends on where the other side is.
    pub(crate) fn goes_over(&self) -> Option<bool> {
        match self.witness {
            Witness::ReadCalls => None,
            Witness::FilerReads => Some(true),
            Witness::ClientReads => Some(false),
        }
    }

    /// Bytes of the data read on the path until now; none when this host does not count them.
    pub(crate) fn path_read_bytes(&mut self) -> Result<Option<u64>, LabError> {
        let volume_reads = self.volume_reads()?;
        self.data_reads(&volume_reads)
    }

    /// The same, when the volumes have been asked.
    fn data_reads(&mut self, volume_reads: &[(Part, u64)]) -> Result<Option<u64>, LabError> {
        if self.witness == Witness::ReadCalls {
            // What copies log segments reads no block.
            return Ok(procfs::tree_read_bytes(self.server.pid(), self.server.session().archiver()?));
        }
        Ok(Some(volume_reads.iter().filter(|(part, _)| part.holds_data()).map(|(_, bytes)| bytes).sum()))
    }

    /// Bytes read from each volume until now, as the witness of the path counts them.
    fn volume_reads(&self) -> Result<Vec<(Part, u64)>, LabError> {
        let filer_reads = |filer: &Filer| {
            let stats = filer.stats()?;
            Ok(stats.procedures.get("READ").map_or(0, |read| read.bytes))
        };
        match self.witness {
            Witness::FilerReads => self.storage.filers.iter().map(|(part, filer)| Ok((*part, filer_reads(filer)?))).collect(),
            Witness::ClientReads => {
                Ok(self.observers.iter().map(|(part, observer)| (*part, observer.totals().read_bytes)).collect())
            }
            Witness::ReadCalls => Ok(Vec::new()),
        }
    }

    /// Calls of our client.
    fn client_counts(&self) -> BTreeMap<String, ProcedureCount> {
        let mut counts = BTreeMap::new();
        for (_, observer) in &self.observers {
            let totals = observer.totals();
            add(&mut counts, "READ", &ProcedureCount { calls: totals.read_calls, bytes: totals.read_bytes });
            add(&mut counts, "WRITE", &ProcedureCount { calls: totals.write_calls, bytes: totals.write_bytes });
            add(&mut counts, "COMMIT", &ProcedureCount { calls: totals.commit_calls, bytes: 0 });
        }
        counts
    }

    /// Waits for a mark of the driver and samples what the sessions wait for meanwhile.
    pub(crate) fn await_mark(
        &mut self,
        driver: &mut Driver,
        awaited: Mark,
        looks: &mut Looks,
        told: Told<'_>,
    ) -> Result<(), LabError> {
        loop {
            let mark = driver.next_mark(WAIT_SAMPLE_EVERY)?;
            told(self, &driver.take_seconds())?;
            match mark {
                Some(mark) if mark == awaited => return Ok(()),
                Some(_) => {}
                None => {
                    self.server.expect_alive()?;
                    for (_, filer) in &mut self.storage.filers {
                        filer.expect_alive()?;
                    }
                    self.server.session().look(looks)?;
                }
            }
        }
    }

    /// Clean stop of everything, the database first; exit codes must be 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        let Self { server, storage, _groups: groups, .. } = self;
        server.stop()?;
        storage.stop()?;
        drop(groups);
        Ok(())
    }
}

/// Holds what database and filers may keep in the page cache, when the plan asks for it.
fn hold_memory(bench: &Bench<'_>, users: u32, server: &Server, storage: &Storage) -> Result<Vec<MemoryGroup>, LabError> {
    let Some(cache) = bench.plan.page_cache_bytes else { return Ok(Vec::new()) };
    let database = bench.buffers_bytes + DATABASE_OWN_BYTES + u64::from(users) * SESSION_OWN_BYTES + cache;
    let group = MemoryGroup::make("database", database)?;
    for pid in procfs::tree(server.pid()) {
        // One that ended meanwhile needs no holding.
        let held = group.add(pid);
        if pid == server.pid() {
            held?;
        }
    }
    let mut groups = vec![group];
    for (part, filer) in &storage.filers {
        let group = MemoryGroup::make(&format!("filer-{}", part.name()), FILER_OWN_BYTES + cache)?;
        group.add(filer.pid())?;
        groups.push(group);
    }
    Ok(groups)
}

/// The shared state of the clients of a database that has started.
fn observe(bench: &Bench<'_>, mountings: &[Mounting]) -> Result<Vec<(Part, Observer)>, LabError> {
    let mut observers = Vec::new();
    for mounting in mountings {
        let failed = |detail: String| LabError::Missing {
            what: format!("look at the counters of the clients of {}: {detail}", mounting.url),
            hint: "the proof of path needs them; is MILLRACE_RUNTIME_DIR on another host's memory?".to_owned(),
        };
        let url = mounting.url.parse().map_err(|error: dnfs::UrlError| failed(error.to_string()))?;
        let observer = Observer::open(bench.work.runtime(), bench.place.user.uid, &url);
        match observer.map_err(|error| failed(error.to_string()))? {
            Some(observer) => observers.push((mounting.part, observer)),
            None => return Err(failed("nobody has mounted it".to_owned())),
        }
    }
    Ok(observers)
}

fn add(counts: &mut BTreeMap<String, ProcedureCount>, name: &str, more: &ProcedureCount) {
    let all = counts.entry(name.to_owned()).or_default();
    all.calls += more.calls;
    all.bytes += more.bytes;
}
