//! An initiator writes to and reads from a target while the bytes between them are cut and joined, the target answers in another
//! order, and everything that can be negotiated is drawn by the seed.

use crate::pair::*;
use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::initiator::{self, Initiator, Request, Residual, Transfer};
use iscsi_proto::login::{DigestChoice, Offer};
use iscsi_proto::pdu::{Itt, Lun};
use iscsi_proto::target::{self, Access, Authentication, End};
use sim::Rng;
use std::collections::HashMap;

const BLOCKS: usize = 1024;

fn offer(rng: &mut Rng) -> Offer {
    let digest = |rng: &mut Rng| *rng.pick(&[DigestChoice::Never, DigestChoice::Allowed, DigestChoice::Preferred]).unwrap();
    Offer {
        header_digest: digest(rng),
        data_digest: digest(rng),
        initial_r2t: rng.chance(1, 2),
        immediate_data: rng.chance(2, 3),
        receive_segment_bytes_max: *rng.pick(&[512, 1000, 4096, 8192, 65_536, 262_144]).unwrap(),
        max_burst_bytes: *rng.pick(&[512, 1026, 8192, 65_536, 1 << 20]).unwrap(),
        first_burst_bytes: *rng.pick(&[512, 2050, 16_384, 262_144]).unwrap(),
        outstanding_r2t_max: 1 + rng.below(4) as u32,
        ..Offer::default()
    }
}

enum Under {
    Write { data: Vec<u8> },
    Read { block: usize, data: Vec<u8> },
}

struct World {
    initiator: Initiator,
    target: TargetSide,
    to_target: Pipe,
    to_initiator: Pipe,
    received: Vec<u8>,
    under_way: HashMap<u32, (std::ops::Range<usize>, Under)>,
    model: Vec<u8>, // of the disk
    logged_in: bool,
    done: usize,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let mut client = initiator_settings();
        client.offer = offer(rng);
        let mut host = TestHost::default();
        if rng.chance(1, 2) {
            let user = Credential::new("alice", b"a secret of alice").unwrap();
            let own = rng.chance(1, 2).then(|| Credential::new("target", b"a secret of target").unwrap());
            client.credential = Some(user.clone());
            client.target_credential = own.clone();
            let algorithms = vec![*rng.pick(Algorithm::ALL).unwrap()];
            let authentication = Authentication::Chap { accepted: vec![user], algorithms, own };
            host.access = Ok(Access { portal_group_tag: 1, alias: Some("disk".into()), authentication });
        }
        let server = target::Settings { offer: offer(rng), command_window: 1 + rng.index(12) };
        let mut world = Self {
            initiator: Initiator::new(client),
            target: TargetSide::new(server, host, BLOCKS),
            to_target: Pipe::default(),
            to_initiator: Pipe::default(),
            received: Vec::new(),
            under_way: HashMap::new(),
            model: vec![0; BLOCKS * BLOCK],
            logged_in: false,
            done: 0,
        };
        let mut out = Vec::new();
        world.initiator.start(&mut out);
        world.to_target.push(&out);
        world
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(4) {
            0 if self.logged_in => self.send(rng),
            1 if !self.target.jobs.is_empty() => {
                // Replies of several commands leave in one buffer, in any order.
                let mut out = Vec::new();
                for _ in 0..=rng.index(self.target.jobs.len()) {
                    let job = self.target.jobs.remove(rng.index(self.target.jobs.len()));
                    self.target.execute(job, &mut out);
                }
                self.target.sender.stamp(&mut out);
                self.to_initiator.push(&out);
            }
            2 => {
                let piece = self.to_target.piece(rng);
                let out = self.target.receive(&piece).unwrap();
                self.to_initiator.push(&out);
            }
            _ => {
                let piece = self.to_initiator.piece(rng);
                let (told, out) = give(&mut self.initiator, &mut self.received, &piece).unwrap();
                self.to_target.push(&out);
                told.into_iter().for_each(|told| self.told(told));
            }
        }
    }

    fn send(&mut self, rng: &mut Rng) {
        let mut out = Vec::new();
        if rng.chance(1, 16) {
            self.initiator.ping(&mut out, &rng.bytes(100)).unwrap();
        }
        let blocks = 1 + if rng.chance(1, 8) { rng.index(200) } else { rng.index(20) };
        let block = rng.index(BLOCKS - blocks);
        let range = block * BLOCK..(block + blocks) * BLOCK;
        let overlaps = |(other, _): &(std::ops::Range<usize>, _)| other.start < range.end && range.start < other.end;
        if self.initiator.window() > 0 && !self.under_way.values().any(overlaps) {
            let write = rng.chance(1, 2);
            let data = if write { rng.bytes(range.len()) } else { Vec::new() };
            let transfer = if write { Transfer::Write(&data) } else { Transfer::Read(range.len() as u32) };
            let cdb = cdb(if write { WRITE_10 } else { READ_10 }, block, blocks);
            let request = Request { lun: Lun::default(), cdb: &cdb, attribute: 1, transfer };
            let itt = self.initiator.command(&mut out, &request).unwrap();
            let read = || Under::Read { block, data: vec![0; range.len()] };
            let under = if write { Under::Write { data: data.clone() } } else { read() };
            self.under_way.insert(itt.0, (range, under));
        }
        self.to_target.push(&out);
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::LoggedIn => self.logged_in = true,
            Told::Data { itt, offset, data, status } => {
                let Some((_, Under::Read { data: read, .. })) = self.under_way.get_mut(&itt.0) else { panic!("no read") };
                read[offset as usize..][..data.len()].copy_from_slice(&data);
                status.into_iter().for_each(|status| self.ended(itt, status));
            }
            Told::Ended { itt, status, .. } => self.ended(itt, status),
            Told::Wanted(request) => {
                let Some((_, Under::Write { data })) = self.under_way.get(&request.itt.0) else { panic!("no write") };
                let mut out = Vec::new();
                self.initiator.data_out(&mut out, request, data).unwrap();
                self.to_target.push(&out);
            }
            Told::Pong(data) => assert_eq!(data.len(), 100),
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, itt: Itt, status: initiator::Status) {
        assert_eq!((status.response, status.status, status.residual), (0, 0, Residual::None));
        let (range, under) = self.under_way.remove(&itt.0).unwrap();
        match under {
            Under::Write { data } => self.model[range].copy_from_slice(&data),
            Under::Read { block, data } => assert!(data == self.model[range], "read at block {block}"),
        }
        self.done += 1;
    }

    /// Lets everything come to its end.
    fn drain(&mut self, rng: &mut Rng) {
        let mut steps = 0;
        while !self.under_way.is_empty() || !self.logged_in || !self.to_target.is_empty() || !self.to_initiator.is_empty() {
            steps += 1;
            assert!(steps < 2_000_000, "stuck with {} commands and {} jobs", self.under_way.len(), self.target.jobs.len());
            let choice = rng.below(3);
            self.step_of(choice, rng);
        }
    }

    fn step_of(&mut self, choice: u64, rng: &mut Rng) {
        match choice {
            0 if !self.target.jobs.is_empty() => {
                let out = self.target.carry_out(rng.index(self.target.jobs.len()));
                self.to_initiator.push(&out);
            }
            1 => {
                let piece = self.to_target.piece(rng);
                let out = self.target.receive(&piece).unwrap();
                self.to_initiator.push(&out);
            }
            _ => {
                let piece = self.to_initiator.piece(rng);
                let (told, out) = give(&mut self.initiator, &mut self.received, &piece).unwrap();
                self.to_target.push(&out);
                told.into_iter().for_each(|told| self.told(told));
            }
        }
    }
}

#[test]
fn what_is_written_is_what_is_read_however_bytes_are_cut_and_replies_are_ordered() {
    sim::sweep(48, |_, mut rng| {
        let mut world = World::new(&mut rng);
        for _ in 0..600 {
            world.step(&mut rng);
        }
        world.drain(&mut rng);
        assert!(world.done > 0);
        assert!(world.target.disk == world.model);
        assert_eq!(world.target.receiver.tasks().active(), 0);
        assert_eq!(world.initiator.pending(), 0);
        let mut out = Vec::new();
        world.initiator.logout(&mut out).unwrap();
        let reply = world.target.receive(&out).unwrap();
        assert_eq!(world.target.ended, Some(End::LoggedOut));
        let (told, _) = give(&mut world.initiator, &mut world.received, &reply).unwrap();
        assert_eq!(told, [Told::LoggedOut(0)]);
    });
}
