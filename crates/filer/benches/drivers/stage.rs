//! The volume that is read, and one turn of a connection: what all drivers share.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use filer::connections::ReceiveBuffer;
use filer::dispatch::{self, Served};
use filer::exports::{Exports, View};
use filer::policy::{Peer, Policy, Rights};
use filer::server::Server;
use filer::{Config, Export, Filer, Listener, ListenerRole};
use volume::Volume;

/// Blocks of 8 KiB in the file that is read; they stay in the page cache.
pub(crate) const BLOCKS: u64 = 16 * 1024;
pub(crate) const BLOCK_BYTES: u32 = 8192;

/// A volume with one file, and a filer on it.
pub(crate) struct Stage {
    filer: Filer,
    view: Arc<View>,
    volume: Volume,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (dir, state_dir) = (folder.path().join("served"), folder.path().join("state"));
        [&dir, &state_dir].iter().for_each(|path| std::fs::create_dir(path).unwrap());
        std::fs::write(dir.join("file"), vec![7; (BLOCKS * u64::from(BLOCK_BYTES)) as usize]).unwrap();
        let volume = Volume::open(volume::Config { dir, state_dir, loss: None, options: volume::Options::default() }).unwrap();
        let filer = made(&volume);
        let view = filer.view(Peer::at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 700), ListenerRole::Nfs));
        Self { filer, view, volume, _folder: folder }
    }

    /// Handle of the file, as hexadecimal digits.
    pub(crate) fn handle_hex(&self) -> String {
        let (node, _) = self.volume.lookup(&self.volume.root(), b"file").unwrap();
        self.volume.handle(&node).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Serves every whole call that was received, and appends the replies.
    pub(crate) fn turn(&self, received: &mut ReceiveBuffer, out: &mut Vec<u8>) {
        while let Some(record) = received.next_frame(filer::nfs::frame).unwrap() {
            assert_eq!(dispatch::serve(&self.filer, &self.view, record.bytes, out), Served::Answered);
        }
    }
}

fn made(volume: &Volume) -> Filer {
    let exports = Exports::one(Export::new("vol", "/vol", volume.clone()), Policy::open(Rights::default()));
    Filer::new(Config { exports, only: None, port: 2049 })
}

/// The filer as it is.
pub(crate) fn filer(socket: TcpListener, stage: Arc<Stage>) {
    Server::new(made(&stage.volume), vec![Listener { socket, role: ListenerRole::Nfs }], None, filer::iscsi::Settings::default())
        .run()
        .unwrap();
}
