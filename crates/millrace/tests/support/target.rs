//! A running `millrace serve --iscsi`, with LUNs.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Scratch, await_until, millrace, millrace_inside, succeed, text};

/// The filer. Dropping it kills the process.
pub struct Target {
    child: Child,
    place: Place,
    pub admin: PathBuf,
    portals: Vec<SocketAddr>,
    nfs: SocketAddr,
    options: Vec<String>,
    pub ready: Value,
}

/// The filer's folders, and the process in whose network namespace it runs.
struct Place {
    export: PathBuf,
    state: PathBuf,
    inside: Option<u32>,
}

impl Target {
    /// Serves `SCRATCH/export` as volume `vol`, with one portal.
    pub fn start(scratch: &Scratch, options: &[&str]) -> Self {
        Self::with_portals(scratch, 1, options)
    }

    /// As [`Self::start`], with this number of portals, each in its own portal group.
    pub fn with_portals(scratch: &Scratch, portals: usize, options: &[&str]) -> Self {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        Self::at(scratch, None, &vec![any; portals], options)
    }

    /// As [`Self::start`], with portals at these addresses, in the network namespace of the process `inside`.
    pub fn at(scratch: &Scratch, inside: Option<u32>, portals: &[SocketAddr], options: &[&str]) -> Self {
        let place = Place { export: scratch.folder("export"), state: scratch.folder("state"), inside };
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let admin = scratch.path().join("admin.sock");
        let (child, ready) = spawn(&place, &admin, "127.0.0.1:0".parse().unwrap(), portals, &options);
        let addresses = |key: &str| -> Vec<SocketAddr> {
            ready[key].as_array().unwrap().iter().map(|address| address.as_str().unwrap().parse().unwrap()).collect()
        };
        let (portals, nfs) = (addresses("portals"), addresses("listen")[0]);
        Self { child, place, admin, portals, nfs, options, ready }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn export(&self) -> &Path {
        &self.place.export
    }

    pub fn state(&self) -> &Path {
        &self.place.state
    }

    /// The address of the nth portal.
    pub fn portal(&self, nth: usize) -> SocketAddr {
        self.portals[nth]
    }

    /// The `nfs://…` URL of the volume.
    pub fn nfs(&self) -> &str {
        self.ready["nfs"].as_str().unwrap()
    }

    /// The name of the target.
    pub fn iqn(&self) -> String {
        self.ready["iscsi"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    }

    /// The URL of a LUN through all portals.
    pub fn url_of_all(&self, lun: u16) -> String {
        let portals: Vec<String> = self.portals.iter().map(SocketAddr::to_string).collect();
        format!("iscsi://{}/{}/{lun}", portals.join(","), self.iqn())
    }

    /// The URL of a LUN through the nth portal.
    pub fn url(&self, nth: usize, lun: u16) -> String {
        format!("iscsi://{}/{}/{lun}", self.portals[nth], self.iqn())
    }

    /// Runs `millrace lun …`.
    pub fn lun(&self, arguments: &[&str]) -> Output {
        millrace().arg("lun").args(arguments).arg("--admin").arg(&self.admin).output().unwrap()
    }

    /// As [`Self::lun`], but the command must succeed. Returns the reply.
    pub fn order(&self, arguments: &[&str]) -> Value {
        let output = self.lun(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Makes a LUN. Returns its number.
    pub fn create(&self, name: &str, size: &str, options: &[&str]) -> u16 {
        let reply = self.order(&[&["create", &format!("vol/{name}"), "--size", size], options].concat());
        reply["lun"]["lun"].as_u64().unwrap() as u16
    }

    /// A LUN in the output of `millrace lun list`.
    pub fn listed(&self, name: &str) -> Value {
        let reply = self.order(&["list"]);
        reply["luns"].as_array().unwrap().iter().find(|lun| lun["name"] == format!("vol/{name}")).cloned().unwrap_or(Value::Null)
    }

    /// Runs `millrace volume …`, which must succeed.
    pub fn volume(&self, arguments: &[&str]) -> String {
        succeed(millrace().arg("volume").args(arguments).arg("--admin").arg(&self.admin))
    }

    /// Ends the filer by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM. Returns the exit code.
    pub fn stop(&mut self) -> Option<i32> {
        succeed(Command::new("kill").args(["-TERM", &self.pid().to_string()]));
        let status = await_until("the filer to stop", Duration::from_secs(30), || self.child.try_wait().unwrap());
        status.code()
    }

    /// Starts the filer again at the same addresses.
    pub fn restart(&mut self) {
        let (child, ready) = spawn(&self.place, &self.admin, self.nfs, &self.portals, &self.options);
        (self.child, self.ready) = (child, ready);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(place: &Place, admin: &Path, nfs: SocketAddr, portals: &[SocketAddr], options: &[String]) -> (Child, Value) {
    let mut command = place.inside.map_or_else(millrace, millrace_inside);
    command.arg("serve").arg(&place.export).args(["--listen", &nfs.to_string(), "--json", "--no-root-squash"]);
    command.arg("--state").arg(&place.state);
    for portal in portals {
        command.args(["--iscsi", &portal.to_string()]);
    }
    let mut child = command.arg("--admin").arg(admin).args(options).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("filer said {line:?}: {error}"));
    (child, ready)
}
