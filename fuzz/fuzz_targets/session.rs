//! A live session of the filer on a real folder: whatever comes, in whatever pieces, is answered or ends the
//! connection, and every answer decodes as what was asked.
//!
//! The first byte chooses: raw bytes as received, or calls whose handles are valid ones (no chance would hit their
//! MAC) with arguments from the input.
#![no_main]

#[path = "../../crates/nfs-proto/tests/every/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod every;
#[allow(dead_code, reason = "each target uses its part")]
mod stage;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use filer::connections::ReceiveBuffer;
use filer::dispatch::{Call, Served, serve_call};
use filer::exports::{Exports, View};
use filer::policy::{Peer, Policy, Rights};
use filer::{Config, Export, Filer, ListenerRole};
use libfuzzer_sys::fuzz_target;
use nfs_proto::record::{self, Framed};
use stage::Stage;

const CALLS_MAX: usize = 32;

struct Wired {
    stage: Stage,
    filer: Filer,
    view: Arc<View>,
}

fuzz_target!(|input: &[u8]| {
    static SERVED: OnceLock<Wired> = OnceLock::new();
    let served = SERVED.get_or_init(Wired::new);
    served.stage.reset();
    let [kind, piece, rest @ ..] = input else { return };
    let received = if kind & 1 == 0 { rest.to_vec() } else { served.calls(rest) };
    served.serve(&received, usize::from(*piece).max(1) * 16);
});

impl Wired {
    fn new() -> Self {
        let stage = Stage::new("session");
        let exports = Exports::one(Export::new("vol", "/vol", stage.volume.clone()), Policy::open(Rights::default()));
        let filer = Filer::new(Config { exports, only: None, port: 2049 });
        let view = filer.view(Peer::at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 700), ListenerRole::Nfs));
        Self { stage, filer, view }
    }

    /// Calls of NFS: two bytes say procedure, handle and length, then come the arguments behind the handle.
    fn calls(&self, mut input: &[u8]) -> Vec<u8> {
        let mut received = Vec::new();
        for xid in 0..CALLS_MAX {
            let [procedure, choice, rest @ ..] = input else { break };
            let (arguments, rest) = rest.split_at(rest.len().min(usize::from(choice >> 2) * 4));
            input = rest;
            received.extend(self.stage.nfs_call(xid as u32, *procedure, *choice, arguments));
        }
        received
    }

    /// Receives in pieces and serves, as a connection does.
    fn serve(&self, mut received: &[u8], piece: usize) {
        let mut buffer = ReceiveBuffer::default();
        while !received.is_empty() {
            let space = buffer.space();
            let taken = received.len().min(space.len()).min(piece);
            space[..taken].copy_from_slice(&received[..taken]);
            buffer.filled(taken);
            received = &received[taken..];
            loop {
                let Ok(next) = buffer.next_frame(filer::nfs::frame) else { return };
                let Some(record) = next else { break };
                let Some(call) = Call::parse(record.bytes) else { return };
                let mut out = Vec::new();
                if serve_call(&self.filer, &self.view, &call, &mut out) == Served::Close {
                    return;
                }
                let Framed::Record { body, consumed } = record::frame(&mut out, usize::MAX >> 1).expect("frame the reply") else {
                    panic!("the reply is not whole");
                };
                assert_eq!(consumed, out.len(), "one reply to one call");
                stage::check_reply(record.bytes, &out[body]);
            }
        }
    }
}
