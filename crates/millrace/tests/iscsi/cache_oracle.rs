//! No flush succeeds if data was lost: two initiators with two portals each on a LUN with a write cache, hundreds of other writers, and at
//! random times power cuts, portal cuts, kills of the filer, and kills of a writer.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::support::lun_load::{BLOCK, block, next};
use crate::support::proxy::Proxy;
use crate::support::scsi::{Client, Who};
use crate::support::target::Target;
use crate::support::{Scratch, seeds};
use initiator::{Command, Completion, Device, IscsiUrl, Options};
use sim::Rng;

/// Rounds of faults in each seed.
const ROUNDS: usize = 4;
/// Blocks of each writer.
const BLOCKS: usize = 400;
/// The unit that the kernel writes as a whole when it kills the writing process.
const PAGE: usize = 4096;
/// Other writers.
const OTHERS: usize = 300;
/// The tag of the first flush. The tag of a write is its block.
const FLUSH: u64 = 1 << 32;

const GO: u8 = 0;
const END: u8 = 1;
const DIE: u8 = 2;

/// A writer with the versions of its blocks that were sent, that were acknowledged, and that a successful flush covered.
struct Writer {
    url: IscsiUrl,
    of_use: String,
    first: u64,
    rng: Rng,
    sent: Vec<u64>,
    acknowledged: Vec<u64>,
    durable: Vec<u64>,
}

impl Writer {
    fn open(&mut self) -> Device {
        // With a small limit the initiator sends its own flushes too.
        let retained_bytes_max = if self.rng.chance(1, 2) { 256 << 10 } else { 8 << 20 };
        let options = Options { retained_bytes_max, of_use: Some(self.of_use.clone()), ..Options::for_portals(2) };
        Device::open(&self.url, options).unwrap()
    }

    /// Writes and flushes while the order is [`GO`]. On [`END`] it waits for all commands and sends a last flush. On [`DIE`] it drops the
    /// device at once. With a depth of 1 all writes take the first path, and the other path never writes.
    fn run(&mut self, order: &AtomicU8, opened: &Barrier) {
        let mut device = self.open();
        opened.wait();
        let depth = if self.rng.chance(1, 2) { 1 } else { 8 };
        let (mut busy, mut flushes, mut flush) = (vec![false; BLOCKS], HashMap::new(), FLUSH);
        loop {
            let now = order.load(Ordering::SeqCst);
            if now == DIE {
                return;
            }
            while now == GO && device.under_way() < depth {
                if self.rng.chance(1, 64) {
                    flushes.insert(flush, self.acknowledged.clone());
                    device.submit(flush, Command::Flush);
                    flush += 1;
                } else if let Some(number) = Some(self.rng.index(BLOCKS)).filter(|number| !busy[*number]) {
                    busy[number] = true;
                    self.sent[number] += 1;
                    let at = self.first + number as u64;
                    let fua = self.rng.chance(1, 16);
                    let data = block(at, self.sent[number]);
                    device.submit(number as u64, Command::Write { offset: at * BLOCK as u64, data, fua });
                }
            }
            device.turn(Some(Duration::from_millis(5)), None).unwrap();
            while let Some(completion) = device.completed() {
                self.ended(completion, &mut busy, &mut flushes);
            }
            if now == END && device.under_way() == 0 {
                device.submit(flush, Command::Flush);
                assert_eq!(next(&mut device).result, Ok(()));
                self.durable.clone_from(&self.acknowledged);
                assert_eq!(self.durable, self.sent);
                return device.close();
            }
        }
    }

    fn ended(&mut self, completion: Completion, busy: &mut [bool], flushes: &mut HashMap<u64, Vec<u64>>) {
        assert_eq!(completion.result, Ok(()), "tag {}", completion.tag);
        if let Some(covered) = flushes.remove(&completion.tag) {
            let durable = self.durable.iter_mut().zip(covered);
            durable.for_each(|(durable, covered)| *durable = covered.max(*durable));
            return;
        }
        let number = completion.tag as usize;
        busy[number] = false;
        self.acknowledged[number] = self.sent[number];
        if matches!(completion.command, Command::Write { fua: true, .. }) {
            self.durable[number] = self.sent[number];
        }
    }

    /// Reads each block and checks that its version is one that a flush covered, or a later one that was sent. A killed filer may have executed
    /// only the first pages of a write. The initiator sends that write again, unless it was killed too.
    fn check(&mut self, when: &str, was_killed: bool) {
        let mut device = self.open();
        let mut torn = Vec::new();
        for first in (0..BLOCKS).step_by(16) {
            (first..first + 16).for_each(|number| {
                let offset = (self.first + number as u64) * BLOCK as u64;
                device.submit(number as u64, Command::Read { offset, buffer: vec![0; BLOCK] });
            });
            let torn_here = (first..first + 16).filter_map(|_| self.check_block(next(&mut device), when));
            torn.extend(torn_here);
        }
        assert!(was_killed || torn.is_empty(), "{when}: blocks {torn:?} are torn, and the filer was not killed");
        for number in torn {
            let at = self.first + number as u64;
            device.submit(0, Command::Write { offset: at * BLOCK as u64, data: block(at, self.sent[number]), fua: false });
            assert_eq!(next(&mut device).result, Ok(()));
        }
        device.submit(0, Command::Flush);
        assert_eq!(next(&mut device).result, Ok(()));
        self.durable.clone_from(&self.acknowledged);
    }
}

impl Writer {
    /// The number of the block, if it contains pages of several versions.
    fn check_block(&mut self, read: Completion, when: &str) -> Option<usize> {
        let Completion { command: Command::Read { buffer, .. }, result: Ok(()), tag } = read else { panic!("a read failed") };
        let (number, at) = (tag as usize, self.first + tag);
        let (durable, sent) = (self.durable[number], self.sent[number]);
        let content = |version| if version == 0 { vec![0; BLOCK] } else { block(at, version) };
        let whole = (durable..=sent).rev().find(|version| content(*version) == buffer);
        let is_of_some =
            |page: usize| (durable..=sent).any(|version| content(version)[page..page + PAGE] == buffer[page..page + PAGE]);
        assert!(
            whole.is_some() || (0..BLOCK).step_by(PAGE).all(is_of_some),
            "{when}: block {at} begins with {:?}; a flush covered version {durable}, {sent} was sent last",
            &buffer[..24]
        );
        // The next round starts from this content, which the caller makes durable.
        let version = whole.unwrap_or(sent);
        (self.sent[number], self.acknowledged[number]) = (version, version);
        whole.is_none().then_some(number)
    }
}

#[test]
fn no_flush_succeeds_if_data_was_lost() {
    // 6 in make test, 500 in make nightly.
    for seed in seeds(|count| if count > 2 { 25 * count } else { 6 }) {
        println!("seed {seed}");
        one_seed(seed);
    }
}

fn one_seed(seed: u64) {
    let scratch = Scratch::new("iscsi-oracle");
    let mut target = Target::with_portals(&scratch, 2, &["--loss-layer"]);
    let lun = target.create("db", "8MiB", &["--write-cache"]);
    let proxies = [0, 1].map(|nth| Proxy::start(target.portal(nth).port()));
    let portals = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port)).collect::<Vec<_>>().join(",");
    let url: IscsiUrl = format!("iscsi://{portals}/{}/{lun}", target.iqn()).parse().unwrap();
    let mut rng = Rng::new(seed);
    let crowded = rng.index(ROUNDS);
    let mut writers = [0, 1].map(|nth: usize| Writer {
        url: url.clone(),
        of_use: format!("writer {nth} of seed {seed}"),
        first: (nth * BLOCKS) as u64,
        rng: Rng::new(seed * 2 + nth as u64),
        sent: vec![0; BLOCKS],
        acknowledged: vec![0; BLOCKS],
        durable: vec![0; BLOCKS],
    });
    for round in 0..ROUNDS {
        let (orders, opened) = ([AtomicU8::new(GO), AtomicU8::new(GO)], Barrier::new(3));
        let dies = [rng.chance(1, 3), rng.chance(1, 3)];
        let was_killed = std::thread::scope(|scope| {
            let writing: Vec<_> =
                writers.iter_mut().zip(&orders).map(|(writer, order)| scope.spawn(|| writer.run(order, &opened))).collect();
            opened.wait();
            if round == crowded {
                pause(&mut rng);
                crowd(&target, lun);
                target.volume(&["power-cut"]);
            }
            // The order follows the last fault at once, so that lost data is not overwritten.
            let mut was_killed = false;
            for _ in 0..if round == crowded { 0 } else { 1 + rng.index(2) } {
                pause(&mut rng);
                was_killed |= fault(&mut target, &proxies, &mut rng);
            }
            let order = |dies| if dies { DIE } else { END };
            orders.iter().zip(dies).for_each(|(order_of, dies)| order_of.store(order(dies), Ordering::SeqCst));
            writing.into_iter().for_each(|thread| thread.join().unwrap());
            was_killed
        });
        target.volume(&["power-cut"]);
        writers.iter_mut().for_each(|writer| writer.check(&format!("seed {seed}, round {round}"), was_killed));
    }
}

fn pause(rng: &mut Rng) {
    // Not a wait for a condition: a random pause decides how much the writers do before a fault.
    std::thread::sleep(Duration::from_millis(5 + rng.index(40) as u64));
}

/// Injects a fault. Returns whether it killed the filer.
fn fault(target: &mut Target, proxies: &[Proxy; 2], rng: &mut Rng) -> bool {
    let one = &proxies[rng.index(2)];
    let kind = rng.index(5);
    match kind {
        0 => drop(target.volume(&["power-cut"])),
        // One path is cut, the cache is lost, and for a while only the other path works.
        1 => {
            one.cut();
            target.volume(&["power-cut"]);
            pause(rng);
            one.join();
        }
        2 => {
            one.cut();
            pause(rng);
            one.join();
        }
        3 => {
            proxies.iter().for_each(Proxy::cut);
            target.volume(&["power-cut"]);
            one.join();
            pause(rng);
            proxies.iter().for_each(Proxy::join);
        }
        _ => {
            target.kill();
            target.restart();
        }
    }
    kind == 4
}

/// Other initiators that each write one block and leave.
fn crowd(target: &Target, lun: u16) {
    for number in 0..OTHERS {
        let who = Who::named(&format!("iqn.2026-11.test:other-{number}"));
        let mut client = Client::ready(target.portal(number % 2), &target.iqn(), &who, lun);
        assert!(client.write(lun, (2 * BLOCKS * BLOCK / 512 + number) as u64, &[7; 512], false).unwrap().is_good());
    }
}
