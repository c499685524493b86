//! Two network namespaces, of a filer and of a client, with links between them that a test can cut.

use rustix::thread::LinkNameSpaceType;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{await_until, find_program, is_root, skip_unsupported, succeed};

/// The namespaces. Dropping this removes them and their links.
pub struct Namespaces {
    filer: Holder,
    client: Holder,
}

/// A process that does nothing in its own network namespace.
struct Holder(Child);

impl Namespaces {
    /// Makes the namespaces with this number of links. `None`, with a message, if this user cannot
    /// create them.
    pub fn linked(cables: usize) -> Option<Self> {
        if !is_root() || ["unshare", "nsenter", "ip"].iter().any(|program| find_program(program).is_none()) {
            skip_unsupported("no root, unshare, nsenter or ip");
            return None;
        }
        let namespaces = Self { filer: Holder::start(), client: Holder::start() };
        let (filer, client) = (&namespaces.filer, &namespaces.client);
        for holder in [filer, client] {
            holder.ip("link set lo up");
        }
        for nth in 0..cables {
            client.ip(&format!("link add c{nth} type veth peer name f{nth} netns {}", filer.0.id()));
            client.ip(&format!("addr add 10.77.{nth}.1/24 dev c{nth}"));
            client.ip(&format!("link set c{nth} up"));
            filer.ip(&format!("addr add 10.77.{nth}.2/24 dev f{nth}"));
            filer.ip(&format!("link set f{nth} up"));
        }
        Some(namespaces)
    }

    /// A process in the filer's namespace.
    pub fn filer(&self) -> u32 {
        self.filer.0.id()
    }

    /// A process in the client's namespace.
    pub fn client(&self) -> u32 {
        self.client.0.id()
    }

    /// The filer's address at the nth link, with any port.
    pub fn address(nth: usize) -> SocketAddr {
        format!("10.77.{nth}.2:0").parse().unwrap()
    }

    /// Cuts the nth link: it delivers nothing any more, and reports no error.
    pub fn cut(&self, nth: usize) {
        self.filer.ip(&format!("link set f{nth} down"));
    }

    pub fn mend(&self, nth: usize) {
        self.filer.ip(&format!("link set f{nth} up"));
    }
}

/// Makes a socket in the network namespace of a process, and leaves the test in its own.
pub fn within<T: Send>(inside: Option<u32>, make: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let Some(pid) = inside else { return make() };
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
    std::thread::scope(|scope| {
        let entered = || {
            // This moves only this thread, which ends afterwards.
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            make()
        };
        scope.spawn(entered).join().unwrap()
    })
}

impl Holder {
    fn start() -> Self {
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let child = Command::new("unshare").args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).spawn().unwrap();
        let holder = Self(child);
        let link = Path::new("/proc").join(holder.0.id().to_string()).join("ns/net");
        await_until("a network namespace", Duration::from_secs(20), || (std::fs::read_link(&link).ok()? != own).then_some(()));
        holder
    }

    /// Runs `ip …` in the namespace.
    fn ip(&self, arguments: &str) {
        let net = format!("--net=/proc/{}/ns/net", self.0.id());
        succeed(Command::new("nsenter").args([&net, "--", "ip"]).args(arguments.split(' ')));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
