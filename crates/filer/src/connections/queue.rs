//! The requests that wait for a worker: which is next, and which of them one worker takes together.
//!
//! **Shares.** Volumes and clients share the workers. A volume gets another worker only while it has fewer workers than are free, and a
//! client only while it has fewer than a third of the free ones. So one volume has at most half of all workers, and one client a
//! quarter. Several slow volumes together leave some workers to others. At one volume, a client gets another worker only while it has
//! fewer there than it may still get in total. So a slow volume leaves workers to other volumes of the same client, which may be a host
//! with many tenants. The requests of one client at one volume form a line, and the lines take turns.
//!
//! **Groups.** One worker takes the requests of one group together. The stable writes of one file form a group: at most two workers
//! execute writes of a file. Writes that arrive meanwhile wait until one of the two is done, then share one flush. Under a light
//! load a worker takes each write alone and at once. The busier the file, the more writes share a flush. The requests of one connection
//! that need no flush form a group too: each takes less time than to wake another thread.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::connection::{Connection, Reservation};
use super::idle_workers::IdleWorkers;
use crate::limits::{BATCHES_PER_GROUP_MAX, REQUESTS_PER_BATCH_MAX, WORKERS_MAX};

/// The volume and the client that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// A number that identifies the volume.
    pub(crate) volume: usize,
    pub(crate) client: IpAddr,
}

/// A request for a worker.
pub(crate) struct Job<R> {
    pub(crate) connection: Arc<Connection>,
    pub(crate) request: R,
    pub(crate) reservation: Reservation,
    pub(crate) tenant: Tenant,
    /// One worker takes jobs with the same number together.
    pub(crate) group: Option<u64>,
    /// When the connection handed it over.
    pub(crate) received_at: Instant,
}

pub(super) struct Queue<R> {
    lines: VecDeque<Line<R>>, // no line is empty; the first one is next
    /// An empty line whose memory the next one uses: a line of few requests begins and ends often.
    spare: Option<Line<R>>,
    pub(super) queued: usize,
    pub(super) running: usize, // batches
    pub(super) threads: usize,
    pub(super) idle: IdleWorkers,
    pub(super) closed: bool,
    groups: Vec<u64>, // those of running batches: at most one entry per worker
    volumes: Held<usize>,
    clients: Held<IpAddr>,
    tenants: Held<Tenant>,
}

/// The waiting jobs of one client at one volume.
struct Line<R> {
    tenant: Tenant,
    jobs: VecDeque<Job<R>>,
    groups: Held<u64>, // the jobs of each group
}

/// Numbers of busy workers by volume or by client, with at most one entry per worker. Also numbers of waiting jobs by group.
struct Held<K>(Vec<(K, usize)>);

impl<K: PartialEq> Held<K> {
    fn of(&self, key: &K) -> usize {
        self.0.iter().find(|(other, _)| other == key).map_or(0, |(_, held)| *held)
    }

    fn add(&mut self, key: K) {
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, held)) => *held += 1,
            None => self.0.push((key, 1)),
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some((_, held)) = self.0.iter_mut().find(|(other, _)| other == key) {
            *held -= 1;
        }
        self.0.retain(|(_, held)| *held > 0);
    }
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        let (queued, running, threads, idle, closed, groups) = Default::default();
        let (volumes, clients, tenants) = (Held(Vec::new()), Held(Vec::new()), Held(Vec::new()));
        Self { lines: VecDeque::new(), spare: None, queued, running, threads, idle, closed, groups, volumes, clients, tenants }
    }
}

/// The most further workers that a client can get at one volume ([`Queue::is_within_share`]).
const SHARE_MAX: usize = WORKERS_MAX / 6;

/// What a worker takes at a time: one job, or several of one group.
pub(super) struct Batch<R> {
    pub(super) jobs: Vec<Job<R>>,
    pub(super) tenant: Tenant,
    pub(super) group: Option<u64>,
}

impl<R> Queue<R> {
    /// Whether another worker could begin a job that is added now.
    pub(super) fn can_begin(&self, tenant: &Tenant, group: Option<u64>) -> bool {
        let line = self.lines.iter().find(|line| line.tenant == *tenant);
        if !self.is_within_share(tenant, line.map_or(0, |line| self.batches_in(line))) {
            return false;
        }
        let Some(group) = group else { return true };
        line.map_or(0, |line| line.groups.of(&group)) + self.batches_of(group) < BATCHES_PER_GROUP_MAX
    }

    /// The number of workers that the jobs of a line could have now, counted up to more than any share. Jobs that wait for others of
    /// their group do not count: hundreds of writes of one file must not delay the tenant's other calls.
    fn batches_in(&self, line: &Line<R>) -> usize {
        let grouped: usize = line.groups.0.iter().map(|(_, jobs)| jobs).sum();
        let mut batches = line.jobs.len() - grouped;
        for (group, jobs) in &line.groups.0 {
            if batches > SHARE_MAX {
                break;
            }
            batches += BATCHES_PER_GROUP_MAX.saturating_sub(self.batches_of(*group)).min(*jobs);
        }
        batches
    }

    /// Adds a job.
    pub(super) fn push(&mut self, job: Job<R>) {
        self.queued += 1;
        let at = self.lines.iter().position(|line| line.tenant == job.tenant).unwrap_or_else(|| {
            let spare = self.spare.take().map(|spare| Line { tenant: job.tenant, ..spare });
            let new = || Line { tenant: job.tenant, jobs: VecDeque::new(), groups: Held(Vec::new()) };
            self.lines.push_back(spare.unwrap_or_else(new));
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        job.group.into_iter().for_each(|group| line.groups.add(group));
        line.jobs.push_back(job);
    }

    /// Whether a job may begin.
    pub(super) fn has_next(&self) -> bool {
        self.next().is_some()
    }

    /// Takes the first batch that may begin.
    pub(super) fn begin(&mut self) -> Option<Batch<R>> {
        let (line, at) = self.next()?;
        let mut line = self.lines.remove(line)?;
        let (tenant, group) = (line.tenant, line.jobs.get(at)?.group);
        let mut jobs = Vec::new();
        match group {
            None => jobs.extend(line.jobs.remove(at)),
            // Each job is taken out once, and put back in its order if it is of another group.
            Some(_) => {
                for _ in 0..line.jobs.len() {
                    let Some(job) = line.jobs.pop_front() else { break };
                    if job.group == group && jobs.len() < REQUESTS_PER_BATCH_MAX {
                        group.iter().for_each(|group| line.groups.remove(group));
                        jobs.push(job);
                    } else {
                        line.jobs.push_back(job);
                    }
                }
            }
        }
        if line.jobs.is_empty() {
            self.spare = Some(line);
        } else {
            self.lines.push_back(line);
        }
        self.queued -= jobs.len();
        self.running += 1;
        self.groups.extend(group);
        self.volumes.add(tenant.volume);
        self.clients.add(tenant.client);
        self.tenants.add(tenant);
        Some(Batch { jobs, tenant, group })
    }

    /// Notes that a batch is done.
    pub(super) fn end(&mut self, tenant: &Tenant, group: Option<u64>) {
        self.running -= 1;
        if let Some(at) = group.and_then(|group| self.groups.iter().position(|running| *running == group)) {
            self.groups.swap_remove(at);
        }
        self.volumes.remove(&tenant.volume);
        self.clients.remove(&tenant.client);
        self.tenants.remove(tenant);
    }

    /// The index of the first line with a job that may begin, and the index of that job.
    fn next(&self) -> Option<(usize, usize)> {
        let may_begin = |job: &Job<R>| job.group.is_none_or(|group| self.batches_of(group) < BATCHES_PER_GROUP_MAX);
        self.lines.iter().enumerate().find_map(|(nth, line)| {
            let at = self.is_within_share(&line.tenant, 0).then(|| line.jobs.iter().position(may_begin)).flatten()?;
            Some((nth, at))
        })
    }

    /// Whether a tenant may get another worker if it already had `more` further ones.
    fn is_within_share(&self, tenant: &Tenant, more: usize) -> bool {
        let free = WORKERS_MAX.saturating_sub(self.running);
        let (volume, client) = (self.volumes.of(&tenant.volume) + more, self.clients.of(&tenant.client) + more);
        let of_client_there = self.tenants.of(tenant) + more;
        // The second condition means `of_client_there < free / 3 - client`: fewer than the client may still get.
        volume < free && 3 * (client + of_client_there) < free
    }

    fn batches_of(&self, group: u64) -> usize {
        self.groups.iter().filter(|running| **running == group).count()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;
    use crate::connections::Totals;
    use crate::connections::connection::tests::connected;
    use crate::limits::{SLOW_REQUESTS_PER_CONNECTION_MAX, WORKERS_KEPT};

    struct Jobs {
        queue: Queue<u32>,
        totals: Arc<Totals>,
        connection: Arc<Connection>,
        _peer: TcpStream,
        made: usize,
    }

    fn tenant(volume: usize, client: u8) -> Tenant {
        Tenant { volume, client: Ipv4Addr::new(10, 0, 0, client).into() }
    }

    impl Jobs {
        fn new() -> Self {
            let (connection, peer) = connected();
            Self { queue: Queue::default(), totals: Arc::default(), connection, _peer: peer, made: 0 }
        }

        fn push(&mut self, tenant: Tenant, group: Option<u64>, count: usize) {
            for _ in 0..count {
                if self.made.is_multiple_of(SLOW_REQUESTS_PER_CONNECTION_MAX) {
                    (self.connection, self._peer) = connected();
                }
                self.made += 1;
                let reservation = Reservation::new(&self.connection, &self.totals, 0).unwrap();
                let (connection, request) = (Arc::clone(&self.connection), self.made as u32);
                self.queue.push(Job { connection, request, reservation, tenant, group, received_at: Instant::now() });
            }
        }

        /// Begins all jobs that may begin. Returns how many batches of `volume` began.
        fn begin_all(&mut self, volume: usize) -> usize {
            let begun: Vec<_> = std::iter::from_fn(|| self.queue.begin()).collect();
            begun.iter().filter(|batch| batch.tenant.volume == volume).count()
        }
    }

    #[test]
    fn one_client_gets_a_quarter_of_the_workers_and_one_volume_half() {
        let mut jobs = Jobs::new();
        let of_client: usize = (1..=9)
            .map(|volume| {
                jobs.push(tenant(volume, 1), None, WORKERS_MAX);
                jobs.begin_all(volume)
            })
            .sum();
        assert!((WORKERS_MAX / 5..=WORKERS_MAX / 4).contains(&of_client), "{of_client}");
        let mut jobs = Jobs::new();
        for client in 1..=9 {
            jobs.push(tenant(1, client), None, WORKERS_MAX / 4);
        }
        assert!(jobs.begin_all(1) <= WORKERS_MAX / 2);
        jobs.push(tenant(2, 100), None, 16);
        assert_eq!(jobs.begin_all(2), 16, "another volume does not wait");
    }

    #[test]
    fn a_slow_volume_leaves_workers_to_another_volume_of_the_same_client() {
        let mut jobs = Jobs::new();
        jobs.push(tenant(1, 1), None, WORKERS_MAX);
        assert!(jobs.begin_all(1) >= WORKERS_KEPT, "the depth at which the speed is measured");
        for volume in 2..=4 {
            jobs.push(tenant(volume, 1), None, 64);
            assert!(jobs.begin_all(volume) > 0, "volume {volume}");
        }
    }

    #[test]
    fn queued_writes_of_one_file_do_not_keep_other_calls_of_their_client_from_a_worker() {
        let (mut jobs, tenant) = (Jobs::new(), tenant(1, 1));
        for _ in 0..2 {
            jobs.push(tenant, Some(7), 1);
            assert_eq!(jobs.begin_all(1), 1);
        }
        jobs.push(tenant, Some(7), WORKERS_MAX);
        assert!(!jobs.queue.can_begin(&tenant, Some(7)));
        assert!(jobs.queue.can_begin(&tenant, Some(8)) && jobs.queue.can_begin(&tenant, None));
        jobs.push(tenant, None, WORKERS_MAX);
        assert!(!jobs.queue.can_begin(&tenant, None), "those have a worker called for each within the tenant's share");
    }

    #[test]
    fn five_slow_volumes_together_leave_workers_to_another() {
        let mut jobs = Jobs::new();
        for volume in 1..=5 {
            (1..=5).for_each(|client| jobs.push(tenant(volume, 5 * volume as u8 + client), None, 64));
            jobs.begin_all(volume);
        }
        jobs.push(tenant(99, 200), None, 2);
        assert!(jobs.begin_all(99) > 0);
    }

    #[test]
    fn clients_take_turns() {
        let mut jobs = Jobs::new();
        jobs.push(tenant(1, 1), None, 10);
        jobs.push(tenant(1, 2), None, 2);
        let clients: Vec<_> = (0..4).filter_map(|_| jobs.queue.begin()).map(|batch| batch.tenant.client).collect();
        let [one, two] = [tenant(1, 1).client, tenant(1, 2).client];
        assert_eq!(clients, [one, two, one, two]);
    }

    #[test]
    fn a_batch_that_ends_gives_its_share_back() {
        let mut jobs = Jobs::new();
        jobs.push(tenant(1, 1), Some(7), 3);
        let first = jobs.queue.begin().unwrap();
        assert_eq!((first.jobs.len(), jobs.queue.queued, jobs.queue.has_next()), (3, 0, false));
        jobs.push(tenant(1, 1), Some(7), 1);
        jobs.queue.begin().unwrap();
        jobs.push(tenant(1, 1), Some(7), 2);
        assert!(!jobs.queue.has_next() && !jobs.queue.can_begin(&tenant(1, 1), Some(7)), "two workers have jobs of the group");
        jobs.queue.end(&tenant(1, 1), Some(7));
        assert_eq!(jobs.queue.begin().unwrap().jobs.len(), 2);
        jobs.queue.end(&tenant(1, 1), Some(7));
        jobs.queue.end(&tenant(1, 1), Some(7));
        assert_eq!((jobs.queue.running, jobs.queue.volumes.0.len(), jobs.queue.clients.0.len()), (0, 0, 0));
    }
}
