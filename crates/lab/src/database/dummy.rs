//! A database of tests: what a new database needs, and no more. Two processes, each with an endpoint.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use results::compare::{DatabaseCounters, SessionState};

use crate::database::engine::{Endpoint, Engine, Parts, ServerProcess, Settings, Signals, Start};
use crate::database::session::{Session, WaitSamples};
use crate::database::system::{Advice, System};
use crate::error::LabError;
use crate::sys::User;

/// The database.
pub(crate) struct DummySystem;

impl System for DummySystem {
    fn name(&self) -> &'static str {
        "dummydb"
    }

    fn title(&self) -> &'static str {
        "DummyDB"
    }

    fn user_name(&self) -> &'static str {
        "nobody"
    }

    fn package(&self) -> &'static str {
        "dummydb-server"
    }

    fn find(&self, _chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
        Ok(Rc::new(Dummy))
    }

    fn activity(&self, event: &str) -> Option<SessionState> {
        (event == "dummy read").then_some(SessionState::BlockReads)
    }

    fn advice(&self) -> Advice {
        Advice { log_flush: "log less", data_writes: "write less" }
    }
}

/// Its programs: shells that wait for the signal that stops them.
#[derive(Debug)]
pub(crate) struct Dummy;

impl Engine for Dummy {
    fn version(&self) -> &str {
        "1.0"
    }

    fn directory(&self) -> &Path {
        Path::new("/opt/dummydb")
    }

    fn endpoint(&self, sockets: &Path) -> Endpoint {
        at(sockets.join("dummy.sock"))
    }

    fn make(&self, _data: &Path, _user: &User) -> Result<Command, LabError> {
        Ok(Command::new("true"))
    }

    fn write_settings(&self, _data: &Path, _settings: &Settings, _user: &User) -> Result<(), LabError> {
        Ok(())
    }

    /// Both take sessions as soon as their sockets exist, and say in their logs that they were stopped.
    fn processes(&self, start: Start<'_>) -> Vec<ServerProcess> {
        let process = |name, endpoint: Endpoint| {
            let script = "trap 'kill $!; echo stopped; exit 0' TERM; touch \"$1\"; sleep 600 & wait";
            let words = ["sh", "-c", script, "sh"].map(OsString::from).into_iter().chain([endpoint.socket.clone().into()]);
            ServerProcess { name, words: words.collect(), endpoint: Some(endpoint) }
        };
        vec![
            process("the log of the database", at(start.sockets.join("log.sock"))),
            process("the database", self.endpoint(start.sockets)),
        ]
    }

    fn open_session(&self, dsn: &str) -> Result<Box<dyn Session>, LabError> {
        std::fs::metadata(dsn).map_err(LabError::file("connect to", dsn))?;
        Ok(Box::new(DummySession))
    }

    fn signals(&self) -> Signals {
        Signals { stop: libc::SIGTERM, abort: libc::SIGKILL }
    }

    fn settings(&self, _buffers_bytes: u64, _users: u32) -> Settings {
        Settings::new()
    }

    fn own_bytes(&self) -> u64 {
        1 << 20
    }

    fn load_overrides(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn parts(&self) -> Parts {
        Parts { log: "log", tablespaces: None, tables: "tables" }
    }
}

fn at(socket: PathBuf) -> Endpoint {
    Endpoint { dsn: socket.display().to_string(), socket }
}

struct DummySession;

impl Session for DummySession {
    fn counters(&mut self) -> Result<DatabaseCounters, LabError> {
        Ok(DatabaseCounters { blocks_read: 3, ..DatabaseCounters::default() })
    }

    fn others(&mut self) -> Result<u64, LabError> {
        Ok(0)
    }

    fn sample_waits(&mut self, samples: &mut WaitSamples) -> Result<(), LabError> {
        samples.add([("dummy read".to_owned(), 1)], false);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    fn spread(&mut self, _shares: u32, _place: &dyn Fn(u32) -> Result<PathBuf, LabError>) -> Result<(), LabError> {
        Err(LabError::plan("spread tables over volumes with DummyDB", "leave the layout out"))
    }

    fn database_bytes(&mut self) -> Result<u64, LabError> {
        Ok(1 << 20)
    }

    fn block_bytes(&mut self) -> Result<u64, LabError> {
        Ok(4096)
    }

    fn server_version(&mut self) -> Result<String, LabError> {
        Ok("1.0".to_owned())
    }

    fn changed_settings(&mut self) -> Result<BTreeMap<String, String>, LabError> {
        Ok(BTreeMap::new())
    }
}
