//! One measured run on one path: restore, serve, start, load, sample, check, stop.

pub(crate) mod driver;
pub(crate) mod filer;
pub(crate) mod processes;
pub(crate) mod progress;
pub(crate) mod storage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use results::compare::{CpuTime, DatabaseCounters, Durability, Proof, ReadProbe, Run};
use results::orders_run::OrdersRun;

use crate::database::checkpoints;
use crate::database::cluster::ClusterPlace;
use crate::database::counters::{self, Looks};
use crate::error::LabError;
use crate::measure::buffer_warm_up::Watch;
use crate::measure::client_activity;
use crate::measure::metrics::Source;
use crate::measure::proof::{self, Witness};
use crate::placement::restore::Method;
use crate::placement::workdir::{self, WorkDir};
use crate::placement::{DATA, Ground};
use crate::plan::{Arm, Plan, Tuning};
use crate::run::driver::{Driver, Mark, Orders, RunOrder};
use crate::run::processes::{Sample, Stage, database_log};
use crate::run::progress::Progress;
use crate::run::storage::Storage;

/// What every run of a comparison shares.
pub(crate) struct Bench<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) work: &'a WorkDir,
    pub(crate) place: &'a ClusterPlace,
    /// The copy of this program that the database's user can read.
    pub(crate) program: PathBuf,
    pub(crate) method: Method,
    pub(crate) block_bytes: u64,
    /// `shared_buffers` of the database.
    pub(crate) buffers_bytes: u64,
    /// Where the storage tells its own latency.
    pub(crate) metrics: Option<&'a Source>,
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
    fn name(&self) -> &str {
        &self.arm.id
    }
}

impl Bench<'_> {
    /// Carries one run out on the ground of its arm. Returns what was counted here and the
    /// driver's own record.
    pub(crate) fn run(
        &self,
        turn: Turn<'_>,
        ground: &mut Ground,
        progress: &mut Progress<'_>,
    ) -> Result<(Run, OrdersRun), LabError> {
        let (mut steps, mut probe) = (Steps::new(), None);
        progress.step(&format!("{}: restoring the loaded state ({})", turn.name(), ground.method(self.method)));
        ground.restore(&self.work.path("master"), self.method, &self.place.user, &mut |bytes| {
            progress.bytes(bytes);
        })?;
        if self.plan.page_cache_bytes.is_some() {
            ground.forget_pages()?;
        }
        steps.done("restore");

        if turn.arm.medium.is_some() && turn.round == 1 {
            progress.step(&format!("{}: probing the medium", turn.name()));
            probe = Some(self.probe(turn, ground)?);
            steps.done("probe");
        }

        progress.step(&format!("{}: starting", turn.name()));
        let mut stage = Stage::start(self, turn, ground)?;
        steps.done("start");

        let dsn = self.place.dsn();
        let logs = self.work.path("logs");
        let orders = Orders { program: &self.program, dsn: &dsn, logs: &logs };
        let (run, record) = self.measure(turn, &orders, &mut stage, progress)?;
        steps.done("measure");

        if turn.arm.medium.is_some() {
            // Reading the whole database block by block would take minutes on a slow medium and says nothing about it.
            progress.step(&format!("{}: starting again without the medium", turn.name()));
            stage.stop()?;
            let arm = Arm { medium: None, ..turn.arm.clone() };
            stage = Stage::start(self, Turn { arm: &arm, ..turn }, ground)?;
            steps.done("restart");
        }
        progress.step(&format!("{}: checking consistency", turn.name()));
        let checks = orders.check(turn.sequence)?;
        steps.done("check");

        progress.step(&format!("{}: stopping", turn.name()));
        stage.stop()?;
        ground.clear()?;
        // What the clients of this run shared: the next run begins with counters at zero.
        workdir::empty_directory(self.work.runtime())?;
        steps.done("stop");
        Ok((Run { checks, probe, step_s: steps.seconds, ..run }, record))
    }

    /// Reads blocks of the restored database over the arm's path, without a database.
    fn probe(&self, turn: Turn<'_>, ground: &Ground) -> Result<ReadProbe, LabError> {
        let Some(file) = storage::largest_file(&self.work.path("master").join(DATA)) else { return Ok(ReadProbe::default()) };
        let storage = Storage::start(self, turn.arm, turn.sequence, ground)?;
        let probe = storage.probe(self, &ground.data(), &file)?;
        storage.stop()?;
        workdir::empty_directory(self.work.runtime())?;
        Ok(probe)
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
        let (mut driver, mut watch) = self.warm_up(turn, orders, stage, progress)?;
        let array_before = self.metrics.map(Source::read).transpose()?;
        let (start, began) = (stage.sample(Some(&driver))?, SystemTime::now());
        watch.end(start.path_read_bytes);
        progress.step(&format!("{}: measuring {} s", turn.name(), turn.order.seconds));
        let mut looks = Looks::default();
        stage.await_mark(&mut driver, Mark::Measured, &mut looks, &mut |_, seconds| {
            progress.seconds(seconds);
            Ok(())
        })?;
        let end = stage.sample(Some(&driver))?;
        let array_after = self.metrics.map(Source::read).transpose()?;
        let record = driver.finish()?;
        let settled = stage.server().session().settled_counters(Duration::from_secs(10))?;
        let after = Sample { database: settled, ..stage.sample(None)? };

        let whole = counters::between(&before.database, &after.database);
        let sessions = Sessions::of(&record, stage)?;
        let proof = self.prove(stage.witness(), whole.blocks_read, (&before, &after), sessions);
        let database = DatabaseCounters {
            checksum_failures: whole.checksum_failures,
            log_segments_archived: whole.log_segments_archived,
            log_archive_failures: whole.log_archive_failures,
            ..counters::between(&start.database, &end.database)
        };
        let (beat, host) = (start.pulse.until(&end.pulse), end.host.since(&start.host, self.plan.keep_awake));
        let elapsed = end.at.duration_since(start.at);
        let array = self.metrics.zip(array_before.zip(array_after));
        let run = Run {
            array_latency: array.and_then(|(source, (before, after))| source.between(before, after)),
            read_latency: client_activity::read_latency(&start.activity, &end.activity),
            slot_use: client_activity::slot_use(&start.activity, &end.activity, elapsed),
            softirq_s: beat.softirq_s,
            wire: stage.goes_over().map(|loopback| beat.wire(loopback)),
            context_switches: beat.switches,
            processor_queue_s: beat.queued_s,
            sequence: turn.sequence,
            round: turn.round,
            seed: order.seed,
            measured_s: end.at.duration_since(start.at).as_secs_f64(),
            warmup_s: record.warmup_s,
            orders: record.orders,
            oets_per_minute: record.oets_per_minute,
            per_second: record.per_second.clone(),
            warmup_per_second: watch.per_second.clone(),
            filling: watch.looks(before.path_read_bytes, sessions.count * sessions.start_bytes),
            checkpoint_ends_s: checkpoints::ends(&database_log(self.work, turn), began),
            series: record.series.clone(),
            conform: (!record.conform.items.is_empty()).then(|| record.conform.clone()),
            database,
            filer: filer::between(&start.filer, &end.filer),
            durability: end.durability.as_deref().map(Durability::from),
            read_bytes_by_volume: volume_reads(&start, &end),
            connections: start.connections.max(end.connections),
            client: filer::between(&start.client, &end.client),
            medium: start.medium.zip(end.medium).map(|(then, now)| storage::medium_counts(&then, &now)),
            cpu: cpu_between(&start.cpu, &end.cpu),
            host_busy_s: host.busy_s,
            host_stolen_s: host.stolen_s,
            waits: shares(&looks.waits),
            vacuum_share: looks.vacuum_share(),
            proof,
            ..Run::default()
        };
        progress.run_ended(turn.name(), run.oets_per_minute);
        Ok((run, record))
    }

    /// Starts the driver and watches it until it measures.
    fn warm_up(
        &self,
        turn: Turn<'_>,
        orders: &Orders<'_>,
        stage: &mut Stage,
        progress: &mut Progress<'_>,
    ) -> Result<(Driver, Watch), LabError> {
        progress.step(&format!("{}: warming up {} s", turn.name(), turn.order.warmup_seconds));
        let mut driver = orders.start(turn.order, &driver_options(self.plan, turn.arm), turn.sequence)?;
        let mut watch = Watch::default();
        stage.await_mark(&mut driver, Mark::Measuring, &mut Looks::default(), &mut |stage, seconds| {
            progress.seconds(seconds);
            watch.take(seconds, || stage.path_read_bytes())
        })?;
        Ok((driver, watch))
    }

    /// Holds the database's own reads against those of the path between two samples.
    fn prove(&self, witness: Witness, blocks_read: u64, (before, after): (&Sample, &Sample), sessions: Sessions) -> Proof {
        let seen = before.path_read_bytes.zip(after.path_read_bytes).map(|(then, now)| now.saturating_sub(then));
        let proof = proof::judge(witness, blocks_read * self.block_bytes, seen);
        proof::without_session_starts(proof, sessions.count, sessions.start_bytes)
    }
}

/// Sessions of a run.
#[derive(Debug, Clone, Copy)]
struct Sessions {
    count: u64,
    /// Bytes each reads outside the buffers when it begins.
    start_bytes: u64,
}

impl Sessions {
    fn of(record: &OrdersRun, stage: &mut Stage) -> Result<Self, LabError> {
        let count = u64::from(record.connections.max(record.users));
        Ok(Self { count, start_bytes: stage.server().session().session_start_bytes()? })
    }
}

/// Options of the driver that an arm's load model and tuning ask for.
pub(crate) fn driver_options(plan: &Plan, arm: &Arm) -> Vec<String> {
    let mut words = Tuning::arguments(&plan.tuning_of(arm).orders);
    let load = &arm.load;
    let model = (load.model != "closed").then(|| load.model.clone());
    for (name, value) in [("--model", model), ("--rate", load.rate.clone()), ("--arrivals", load.arrivals.clone())] {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    }
    words
}

/// Bytes read from each volume between two moments.
fn volume_reads(before: &Sample, after: &Sample) -> BTreeMap<String, u64> {
    let pairs = before.volume_reads.iter().zip(&after.volume_reads);
    pairs.map(|((_, then), (part, now))| (part.name(), now.saturating_sub(*then))).collect()
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
