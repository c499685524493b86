//! One measured run on one path: restore, serve, start, load, sample, check, stop.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use results::compare::{CpuTime, DatabaseCounters, ProcedureCount, Run};
use results::orders_run::OrdersRun;

use crate::driver::{Driver, Mark, Orders, RunOrder};
use crate::error::LabError;
use crate::filer::{self, Filer};
use crate::limits::WAIT_SAMPLE_EVERY;
use crate::paths::StoragePath;
use crate::plan::{Arm, Plan};
use crate::postgres::cluster::{ClusterPlace, Server};
use crate::postgres::counters;
use crate::procfs::{self, HostCpu};
use crate::progress::Progress;
use crate::proof::{self, Witness};
use crate::restore::{self, Method};
use crate::workdir::{self, WorkDir};

/// Where the database sees its files over Direct NFS. Must not exist on the host.
const MOUNT_PATH: &str = "/millrace-db";

/// Name of the cluster's directory on every path.
pub(crate) const DATA: &str = "pgdata";

/// What every run of a comparison shares.
pub(crate) struct Bench<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) work: &'a WorkDir,
    pub(crate) place: &'a ClusterPlace,
    /// The copy of this program that the database's user can read.
    pub(crate) program: PathBuf,
    pub(crate) method: Method,
    pub(crate) block_bytes: u64,
}

/// One run to be carried out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) arm: &'a Arm,
    /// Place in the whole sequence, from 1.
    pub(crate) sequence: u32,
    /// Round, from 1.
    pub(crate) round: u32,
    /// What is asked of the driver.
    pub(crate) order: RunOrder,
}

impl Turn<'_> {
    fn path(&self) -> StoragePath {
        self.arm.path.kind
    }

    fn name(&self) -> &str {
        &self.arm.id
    }
}

/// Everything that is counted, at one moment.
struct Sample {
    at: Instant,
    database: DatabaseCounters,
    filer: BTreeMap<String, ProcedureCount>,
    cpu: BTreeMap<String, CpuTime>,
    host: HostCpu,
}

/// Processes of a run. Fields are dropped in this order: the database must go before the
/// filer, for it waits for its storage.
struct Stage {
    server: Server,
    filer: Option<Filer>,
}

impl Bench<'_> {
    /// Carries one run out. Returns what was counted here and the driver's own record.
    pub(crate) fn run(&self, turn: Turn<'_>, progress: &mut Progress<'_>) -> Result<(Run, OrdersRun), LabError> {
        let mut steps = Steps::new();
        let directory = match turn.path() {
            StoragePath::Dnfs => "export",
            _ => "local",
        };
        let data = self.work.path(directory).join(DATA);
        progress.step(&format!("{}: restoring the loaded state ({})", turn.name(), self.method.name()));
        restore::restore(&self.work.path("master").join(DATA), &data, self.method, &self.place.user, &mut |bytes| {
            progress.bytes(bytes);
        })?;
        steps.done("restore");

        progress.step(&format!("{}: starting", turn.name()));
        let mut stage = self.start(turn)?;
        steps.done("start");

        let dsn = self.place.dsn();
        let logs = self.work.path("logs");
        let orders = Orders { program: &self.program, dsn: &dsn, logs: &logs };
        let (run, record) = self.measure(turn, &orders, &mut stage, progress)?;
        steps.done("measure");

        progress.step(&format!("{}: checking consistency", turn.name()));
        let checks = orders.check(turn.sequence)?;
        steps.done("check");

        progress.step(&format!("{}: stopping", turn.name()));
        let Stage { server, filer } = stage;
        server.stop()?;
        filer.map_or(Ok(()), Filer::stop)?;
        workdir::remove_tree(&data)?;
        steps.done("stop");
        Ok((Run { checks, step_s: steps.seconds, ..run }, record))
    }

    fn start(&self, turn: Turn<'_>) -> Result<Stage, LabError> {
        let logs = self.work.path("logs");
        let database_log = logs.join(format!("database-{}-{}.log", turn.sequence, turn.path()));
        if turn.path() != StoragePath::Dnfs {
            let data = self.work.path("local").join(DATA);
            return Ok(Stage { server: self.place.start(&[], &data, &[], database_log)?, filer: None });
        }
        let filer_log = logs.join(format!("filer-{}.log", turn.sequence));
        let filer = Filer::start(&self.program, &self.work.path("export"), &self.work.path("state"), filer_log)?;
        let mut mount = OsString::from(format!("{MOUNT_PATH}="));
        mount.push(filer.url());
        let prefix: Vec<OsString> = vec![self.program.clone().into(), "exec".into(), "--mount".into(), mount, "--".into()];
        let data = PathBuf::from(MOUNT_PATH).join(DATA);
        match self.place.start(&prefix, &data, &[], database_log) {
            Ok(server) => Ok(Stage { server, filer: Some(filer) }),
            Err(error) => Err(error),
        }
    }

    fn measure(
        &self,
        turn: Turn<'_>,
        orders: &Orders<'_>,
        stage: &mut Stage,
        progress: &mut Progress<'_>,
    ) -> Result<(Run, OrdersRun), LabError> {
        let order = turn.order;
        let before = stage.sample(None)?;
        let witness_before = stage.witness(turn.path(), &before);
        progress.step(&format!("{}: warming up {} s", turn.name(), turn.order.warmup_seconds));
        let mut driver = orders.start(order, turn.sequence)?;
        stage.await_mark(&mut driver, Mark::Measuring, &mut BTreeMap::new())?;
        let start = stage.sample(Some(&driver))?;
        progress.step(&format!("{}: measuring {} s", turn.name(), turn.order.seconds));
        let mut waits = BTreeMap::new();
        stage.await_mark(&mut driver, Mark::Measured, &mut waits)?;
        let end = stage.sample(Some(&driver))?;
        let record = driver.finish()?;
        let settled = stage.server.session().settled_counters(Duration::from_secs(10))?;
        let after = Sample { database: settled, ..stage.sample(None)? };
        let witness_after = stage.witness(turn.path(), &after);

        let whole = counters::between(&before.database, &after.database);
        let seen = witness_before.zip(witness_after).map(|(then, now)| now.saturating_sub(then));
        let proof = proof::judge(witness(turn.path()), whole.blocks_read * self.block_bytes, seen);
        let database =
            DatabaseCounters { checksum_failures: whole.checksum_failures, ..counters::between(&start.database, &end.database) };
        let run = Run {
            sequence: turn.sequence,
            round: turn.round,
            seed: order.seed,
            measured_s: end.at.duration_since(start.at).as_secs_f64(),
            warmup_s: record.warmup_s,
            orders: record.orders,
            oets_per_minute: record.oets_per_minute,
            per_second: record.per_second.clone(),
            series: record.series.clone(),
            conform: (!record.conform.items.is_empty()).then(|| record.conform.clone()),
            database,
            filer: filer::between(&start.filer, &end.filer),
            cpu: cpu_between(&start.cpu, &end.cpu),
            host_busy_s: end.host.busy_s - start.host.busy_s,
            waits: shares(&waits),
            proof,
            ..Run::default()
        };
        Ok((run, record))
    }
}

impl Stage {
    /// Counts everything now.
    fn sample(&mut self, driver: Option<&Driver>) -> Result<Sample, LabError> {
        let mut cpu = BTreeMap::from([("database".to_owned(), procfs::tree_cpu(self.server.pid()))]);
        if let Some(filer) = &self.filer {
            cpu.insert("filer".to_owned(), procfs::tree_cpu(filer.pid()));
        }
        if let Some(driver) = driver {
            cpu.insert("driver".to_owned(), procfs::tree_cpu(driver.pid()));
        }
        let host = procfs::host_cpu();
        let at = Instant::now();
        let filer = self.filer.as_ref().map_or_else(|| Ok(BTreeMap::new()), Filer::counters)?;
        Ok(Sample { at, database: self.server.session().counters()?, filer, cpu, host })
    }

    /// Bytes read on the path until now.
    fn witness(&self, path: StoragePath, sample: &Sample) -> Option<u64> {
        match witness(path) {
            Witness::FilerReads => Some(sample.filer.get("READ").map_or(0, |read| read.bytes)),
            Witness::ReadCalls => procfs::tree_read_bytes(self.server.pid()),
        }
    }

    /// Waits for a mark of the driver and samples what the sessions wait for meanwhile.
    fn await_mark(&mut self, driver: &mut Driver, awaited: Mark, waits: &mut BTreeMap<String, u64>) -> Result<(), LabError> {
        loop {
            match driver.next_mark(WAIT_SAMPLE_EVERY)? {
                Some(mark) if mark == awaited => return Ok(()),
                Some(_) => {}
                None => {
                    self.server.expect_alive()?;
                    if let Some(filer) = &mut self.filer {
                        filer.expect_alive()?;
                    }
                    for (event, count) in self.server.session().waits()? {
                        *waits.entry(event).or_default() += count;
                    }
                }
            }
        }
    }
}

fn witness(path: StoragePath) -> Witness {
    match path {
        StoragePath::Dnfs => Witness::FilerReads,
        _ => Witness::ReadCalls,
    }
}

fn cpu_between(before: &BTreeMap<String, CpuTime>, after: &BTreeMap<String, CpuTime>) -> BTreeMap<String, CpuTime> {
    let none = CpuTime::default();
    let gained = after.iter().map(|(owner, now)| {
        let then = before.get(owner).unwrap_or(&none);
        let time = CpuTime { user_s: (now.user_s - then.user_s).max(0.0), sys_s: (now.sys_s - then.sys_s).max(0.0) };
        (owner.clone(), time)
    });
    gained.collect()
}

fn shares(counts: &BTreeMap<String, u64>) -> BTreeMap<String, f64> {
    let all: u64 = counts.values().sum();
    counts.iter().map(|(event, count)| (event.clone(), *count as f64 / all.max(1) as f64)).collect()
}

/// Seconds spent on each step.
struct Steps {
    last: Instant,
    seconds: BTreeMap<String, f64>,
}

impl Steps {
    fn new() -> Self {
        Self { last: Instant::now(), seconds: BTreeMap::new() }
    }

    fn done(&mut self, step: &str) {
        let now = Instant::now();
        self.seconds.insert(step.to_owned(), now.duration_since(self.last).as_secs_f64());
        self.last = now;
    }
}
