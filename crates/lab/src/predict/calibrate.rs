//! Makes a system meet the run it was fitted on.

use super::model::{SpindleWrites, Storage, System};

/// Steps of each bisection.
const STEPS: u32 = 24;

/// Most that calls may wait for processors, by what sharing in turns would give: C^2 = 5. Found are 1.5 to 2, where the way
/// of a read is known at several loads; beyond the bound, what is missing is something else.
const QUEUEING_MAX: f64 = 3.0;

/// Most of the writes to spindles that may be done while no read waits there, and the part of the throughput that this has to
/// bring to be what a model misses.
const WRITES_BEHIND_MAX: f64 = 0.5;
const BEHIND_MATTERS: f64 = 0.10;

/// What the measured round is longer than the model's is waiting for processors whose pieces of work vary, and beyond a
/// bound a time of its own. When the model's is longer, part of what it
/// counts did not hold up the users: processor time of writers and filer beside them, or waiting for a processor that the
/// times of reads and flushes hold and the processors' station counts too. Which comes first: where a medium or a page cache
/// tells the storage's own part of a read (`storage_known`), that is believed; elsewhere the processor time is. What then
/// still is too much is processor time again. Says what it did.
pub(super) fn calibrate(system: &mut System, users: u32, measured: f64, storage_known: bool) -> String {
    let predicted = |system: &System| system.with_reads(users, system.reads, system.writes).oets_per_minute;
    if predicted(system) >= measured {
        let queueing = |queueing: f64| System { queueing, ..system.clone() };
        if predicted(&queueing(QUEUEING_MAX)) < measured {
            let found = bisect(1.0, QUEUEING_MAX, |times| predicted(&queueing(times)) < measured);
            *system = queueing(found);
            return format!("calls wait {found:.1} times as long for processors as if these were shared in turns");
        }
        *system = queueing(QUEUEING_MAX);
        let longest = f64::from(users) / (measured / 60.0);
        let found = bisect(0.0, longest, |other_s| predicted(&System { other_s, ..system.clone() }) < measured);
        system.other_s = found;
        return format!(
            "{:.3} ms per order are not explained by these; the model adds them to each order unchanged",
            found * 1e3
        );
    }
    let mut words = Vec::new();
    // Spindles that are nearly always at work: what misses is how writes and reads queue there, and nothing else is bent for it.
    if predicted(&behind(system, WRITES_BEHIND_MAX)) > predicted(system) * (1.0 + BEHIND_MATTERS) {
        let enough = predicted(&behind(system, WRITES_BEHIND_MAX)) >= measured;
        let most = WRITES_BEHIND_MAX;
        let part = if enough { bisect(0.0, most, |part| predicted(&behind(system, part)) >= measured) } else { most };
        *system = behind(system, part);
        words.push(format!("{:.0} % of the spindles' writes are done while no read waits", part * 100.0));
        if enough {
            return words.join("; ");
        }
    }
    let steps: [fn(&System, f64) -> System; 2] = if storage_known { [aside, shrunk] } else { [shrunk, aside] };
    for step in steps {
        let enough = predicted(&step(system, 1.0)) >= measured;
        let part = if enough { bisect(0.0, 1.0, |part| predicted(&step(system, part)) >= measured) } else { 1.0 };
        *system = step(system, part);
        words.push(if std::ptr::fn_addr_eq(step, aside as fn(&System, f64) -> System) {
            format!("{:.0} % of the processor time is background work, which no user waits for", system.beside * 100.0)
        } else {
            format!("{:.0} % of the read and flush times are waiting for a processor, which is counted there", part * 100.0)
        });
        if enough {
            return words.join("; ");
        }
    }
    let part = bisect(0.0, 1.0, |part| predicted(&eased(system, part)) >= measured);
    *system = eased(system, part);
    words.push(format!(
        "{:.0} % of the processor time is left out, so that the model meets the measured cycle time",
        part * 100.0
    ));
    words.join("; ")
}

/// So much of the data's writes is done while the spindles have no read.
fn behind(system: &System, part: f64) -> System {
    let writes = system.spindle_writes;
    let left = 1.0 - part;
    let spindle_writes = SpindleWrites { extending_s: writes.extending_s * left, evicting_s: writes.evicting_s * left, ..writes };
    System { spindle_writes, ..system.clone() }
}

/// So much of the processor time that users seem to wait for runs beside them.
fn aside(system: &System, part: f64) -> System {
    System { beside: system.beside + (1.0 - system.beside) * part, ..system.clone() }
}

/// Reads, writes and flushes without so much of their times.
fn shrunk(system: &System, part: f64) -> System {
    let left = 1.0 - part;
    System {
        storage: scaled(system.storage, left),
        read_path_s: system.read_path_s * left,
        flush_s: system.flush_s * left,
        flush_path_s: system.flush_path_s * left,
        write_path_s: system.write_path_s * left,
        ..system.clone()
    }
}

fn eased(system: &System, part: f64) -> System {
    System { cpu_s: system.cpu_s * (1.0 - part), ..system.clone() }
}

/// The place between `low` and `high` at which `beyond` turns true.
fn bisect(mut low: f64, mut high: f64, beyond: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

fn scaled(storage: Storage, part: f64) -> Storage {
    match storage {
        Storage::Latency { seconds } => Storage::Latency { seconds: seconds * part },
        Storage::Spindles { count, service_s, overhead_s, cache_hit } => {
            Storage::Spindles { count, service_s, overhead_s: overhead_s * part, cache_hit }
        }
    }
}
