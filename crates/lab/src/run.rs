//! One measured run on one path: restore, serve, start, load, sample, check, stop.

pub(crate) mod driver;
pub(crate) mod kernel_settings;
pub(crate) mod processes;
pub(crate) mod progress;
mod read_probe;
pub(crate) mod setup;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use results::compare::{CpuTime, DatabaseCounters, Durability, ProcedureCount, Proof, ProofSource, Run};
use results::orders_run::OrdersRun;

use crate::database::session::{self, WaitSamples};
use crate::error::LabError;
use crate::host::page_cache;
use crate::measure::buffer_warm_up::BufferWarmUp;
use crate::measure::client_activity;
use crate::measure::metrics::Source;
use crate::measure::proof;
use crate::paths::medium;
use crate::paths::placement::Placement;
use crate::placement::workdir;
use crate::plan::Arm;
use crate::run::driver::{Driver, Mark, Orders};
use crate::run::processes::{RunProcesses, Sample};
use crate::run::progress::Progress;
use crate::run::setup::{Setup, Turn, driver_options};

impl Setup<'_> {
    /// Carries out one run at the place of its configuration's files. Returns the counters of this process and the
    /// driver's own record.
    pub(crate) fn run(
        &self,
        turn: Turn<'_>,
        placement: &mut dyn Placement,
        progress: &mut Progress<'_>,
    ) -> Result<(Run, OrdersRun), LabError> {
        let (mut steps, mut probe) = (Steps::new(), None);
        progress.step(&format!("{}: restoring the loaded state ({})", turn.name(), placement.method(self.method)));
        placement.restore(&self.kept_state(), self.method, &self.place.user, &mut |bytes| {
            progress.bytes(bytes);
        })?;
        steps.done("restore");
        self.prepare_page_cache(turn, &*placement, progress)?;
        steps.done("page cache");

        if turn.arm.medium.is_some() && turn.round == 1 {
            progress.step(&format!("{}: probing the medium", turn.name()));
            probe = Some(read_probe::probe(self, turn, placement)?);
            steps.done("probe");
        }

        progress.step(&format!("{}: starting", turn.name()));
        let mut processes = RunProcesses::start(self, turn, placement)?;
        steps.done("start");

        let dsn = self.place.dsn();
        let logs = self.work.path("logs");
        let orders = Orders { program: &self.program, dsn: &dsn, logs: &logs };
        let measured = self.measure(turn, &orders, &mut processes, progress);
        let (run, record) = measured.map_err(|error| processes.explained(error))?;
        let folio_bytes = placement.cached_files().and_then(page_cache::folio_bytes).unwrap_or_default();
        steps.done("measure");

        if turn.arm.medium.is_some() {
            // Reading the complete database block by block would take minutes on a slow medium, without information about it.
            progress.step(&format!("{}: starting again without the medium", turn.name()));
            processes.stop()?;
            let arm = Arm { medium: None, ..turn.arm.clone() };
            processes = RunProcesses::start(self, Turn { arm: &arm, ..turn }, placement)?;
            steps.done("restart");
        }
        // The checks join and sort complete tables in memory, which the load does not need.
        processes.lift_memory_limits()?;
        progress.step(&format!("{}: checking consistency", turn.name()));
        let checks = orders.check(turn.sequence, &mut || processes.expect_storage());
        let checks = checks.map_err(|error| processes.explained(error))?;
        steps.done("check");

        progress.step(&format!("{}: stopping", turn.name()));
        processes.stop()?;
        placement.clear()?;
        // Removes the shared state of this run's clients, so that the next run starts with counters at zero.
        workdir::empty_directory(self.work.runtime())?;
        steps.done("stop");
        Ok((Run { checks, probe, folio_bytes, step_s: steps.seconds, ..run }, record))
    }

    /// Establishes the same state of the page cache before each run on each path: the copy is in it, in small folios, or nothing of it
    /// if the plan limits the page cache.
    fn prepare_page_cache(&self, turn: Turn<'_>, placement: &dyn Placement, progress: &mut Progress<'_>) -> Result<(), LabError> {
        let Some(files) = placement.cached_files() else { return Ok(()) };
        page_cache::forget(files)?;
        if self.plan.page_cache_bytes.is_none() {
            progress.step(&format!("{}: reading the restored files into the page cache", turn.name()));
            page_cache::read_back(files, &mut |bytes| progress.bytes(bytes))?;
        }
        Ok(())
    }

    fn measure(
        &self,
        turn: Turn<'_>,
        orders: &Orders<'_>,
        processes: &mut RunProcesses,
        progress: &mut Progress<'_>,
    ) -> Result<(Run, OrdersRun), LabError> {
        let order = turn.order;
        let start_bytes = processes.server().session().session_start_bytes()?;
        let before = processes.sample(None)?;
        let (mut driver, mut warm_up) = self.warm_up(turn, orders, processes, progress)?;
        let array_before = self.metrics.map(Source::read).transpose()?;
        let (start, began) = (processes.sample(Some(&driver))?, SystemTime::now());
        warm_up.end(start.reads.of_data);
        progress.step(&format!("{}: measuring {} s", turn.name(), turn.order.seconds));
        let mut waits = WaitSamples::default();
        processes.await_mark(&mut driver, Mark::Measured, &mut waits, &mut |_, seconds| {
            progress.seconds(seconds);
            Ok(())
        })?;
        let end = processes.sample(Some(&driver))?;
        let array_after = self.metrics.map(Source::read).transpose()?;
        let record = driver.finish()?;
        let settled = session::settled_counters(processes.server().session(), Duration::from_secs(10))?;
        let after = Sample { database: settled, ..processes.sample(None)? };

        let whole = session::between(&before.database, &after.database);
        let sessions = Sessions::of(&record, after.at.duration_since(before.at), start_bytes, processes)?;
        let proof = self.prove(processes.storage().proof_source(), &whole, (&before, &after), sessions);
        let database = DatabaseCounters {
            checksum_failures: whole.checksum_failures,
            log_segments_archived: whole.log_segments_archived,
            log_archive_failures: whole.log_archive_failures,
            ..session::between(&start.database, &end.database)
        };
        let (kernel, host) = (end.kernel.since(&start.kernel), end.host.since(&start.host, self.plan.keep_awake));
        let elapsed = end.at.duration_since(start.at);
        let array = self.metrics.zip(array_before.zip(array_after));
        let run = Run {
            array_latency: array.and_then(|(source, (before, after))| source.between(before, after)),
            read_latency: client_activity::read_latency(&start.storage.client_activity, &end.storage.client_activity),
            slot_use: client_activity::slot_use(&start.storage, &end.storage, elapsed),
            softirq_s: kernel.softirq_s,
            wire: processes.storage().interfaces().map(|interfaces| kernel.wire(interfaces)),
            context_switches: kernel.switches,
            processor_queue_s: kernel.queued_s,
            sequence: turn.sequence,
            round: turn.round,
            seed: order.seed,
            measured_s: end.at.duration_since(start.at).as_secs_f64(),
            warmup_s: record.warmup_s,
            orders: record.orders,
            oets_per_minute: record.oets_per_minute,
            per_second: record.per_second.clone(),
            warmup_per_second: warm_up.per_second.clone(),
            filling: warm_up.samples(before.reads.of_data, sessions.count * sessions.start_bytes),
            checkpoint_ends_s: self.place.engine.checkpoint_ends(&self.database_log(turn), began),
            series: record.series.clone(),
            conform: (!record.conform.items.is_empty()).then(|| record.conform.clone()),
            database,
            filer: calls_between(&start.storage.server_calls, &end.storage.server_calls),
            durability: end.storage.durability.as_deref().map(Durability::from),
            read_bytes_by_volume: volume_reads(&start, &end),
            connections: start.storage.connections.max(end.storage.connections),
            client: calls_between(&start.storage.client_calls, &end.storage.client_calls),
            medium: start.medium.zip(end.medium).map(|(then, now)| medium::between(&then, &now)),
            cpu: cpu_between(&start.cpu, &end.cpu),
            served: processes.storage().served(),
            host_busy_s: host.busy_s,
            host_stolen_s: host.stolen_s,
            waits: shares(&waits.waits),
            vacuum_share: waits.vacuum_share(),
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
        processes: &mut RunProcesses,
        progress: &mut Progress<'_>,
    ) -> Result<(Driver, BufferWarmUp), LabError> {
        progress.step(&format!("{}: warming up {} s", turn.name(), turn.order.warmup_seconds));
        let mut driver = orders.start(turn.order, &driver_options(self.plan, turn.arm), turn.sequence)?;
        let mut warm_up = BufferWarmUp::default();
        processes.await_mark(&mut driver, Mark::Measuring, &mut WaitSamples::default(), &mut |processes, seconds| {
            progress.seconds(seconds);
            warm_up.take(seconds, || Ok(processes.reads()?.of_data))
        })?;
        Ok((driver, warm_up))
    }

    /// Compares the database's own reads with those of the path between two samples.
    fn prove(
        &self,
        source: ProofSource,
        whole: &DatabaseCounters,
        (before, after): (&Sample, &Sample),
        sessions: Sessions,
    ) -> Proof {
        let seen = before.reads.of_data.zip(after.reads.of_data).map(|(then, now)| now.saturating_sub(then));
        let proof = proof::judge(source, self.place.engine.read_bytes(whole, self.block_bytes), seen);
        let proof = proof::without_session_starts(proof, sessions.count + sessions.own, sessions.start_bytes);
        let carried = proof::carried_between(before.storage.carried.as_ref(), after.storage.carried.as_ref());
        proof::with_carried(proof, whole.log_bytes, carried)
    }
}

/// Sessions of a run.
#[derive(Debug, Clone, Copy)]
struct Sessions {
    count: u64,
    /// Number of sessions that the server may have started itself.
    own: u64,
    /// Bytes that each session reads at its start, not counted as block reads.
    start_bytes: u64,
}

impl Sessions {
    /// `start_bytes`: bytes that a session read at its start before the load. At the end, the file may be missing for a moment: a
    /// change of the catalog removes it, and the next session writes it again.
    fn of(record: &OrdersRun, elapsed: Duration, start_bytes: u64, processes: &mut RunProcesses) -> Result<Self, LabError> {
        let session = processes.server().session();
        let count = u64::from(record.connections.max(record.users));
        let start_bytes = start_bytes.max(session.session_start_bytes()?);
        Ok(Self { count, own: session.own_starts(elapsed)?, start_bytes })
    }
}

/// Bytes read from each volume between two moments.
fn volume_reads(before: &Sample, after: &Sample) -> BTreeMap<String, u64> {
    let pairs = before.reads.by_volume.iter().zip(&after.reads.by_volume);
    pairs.map(|((_, then), (part, now))| (part.name(), now.saturating_sub(*then))).collect()
}

/// Calls between two moments, without procedures that were never called.
fn calls_between(
    before: &BTreeMap<String, ProcedureCount>,
    after: &BTreeMap<String, ProcedureCount>,
) -> BTreeMap<String, ProcedureCount> {
    let none = ProcedureCount::default();
    let gained = after.iter().map(|(name, now)| {
        let then = before.get(name).unwrap_or(&none);
        let calls = now.calls.saturating_sub(then.calls);
        (name.clone(), ProcedureCount { calls, bytes: now.bytes.saturating_sub(then.bytes) })
    });
    gained.filter(|(_, count)| count.calls > 0).collect()
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
