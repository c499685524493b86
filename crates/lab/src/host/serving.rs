//! What serves the files of a directory besides the disks of this host: processes of FUSE, and servers over NFS and iSCSI. Found by
//! what is mounted there and by the block devices below it.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ::host::mount_table::{Mount, is_nfs};
use results::compare::Served;

use crate::host::{listener, procfs};

/// The port of NFS that the kernel leaves out of a mount's options.
const NFS_PORT: u16 = 2049;

/// What serves a directory or a device; empty if only disks of this host do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Serving {
    /// Processes that serve a FUSE mount: `millrace mount`, `millrace iscsi attach`, or a client of another file system.
    clients: Vec<u32>,
    /// Addresses of servers, each with its processes on this host. Without any, the server is on another host, is the kernel, or is a
    /// process whose descriptors this user may not read.
    servers: Vec<(SocketAddr, Vec<u32>)>,
    /// FUSE mounts whose process was not found.
    unknown: Vec<PathBuf>,
}

impl Serving {
    /// What serves a directory.
    pub(crate) fn of(directory: &Path) -> Self {
        let mut search = Search::default();
        if let Ok(directory) = fs::canonicalize(directory) {
            search.directory(&directory);
        }
        search.found
    }

    /// What serves a block device.
    pub(crate) fn of_device(device: &Path) -> Self {
        let mut search = Search::default();
        search.named_device(device);
        search.found
    }

    /// Pids of the clients.
    pub(crate) fn clients(&self) -> Vec<u32> {
        self.clients.clone()
    }

    /// Pids of the servers that run on this host.
    pub(crate) fn servers(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.servers.iter().flat_map(|(_, pids)| pids.iter().copied()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Whether a server has an address of this host.
    pub(crate) fn is_on_this_host(&self) -> bool {
        self.servers.iter().any(|(address, _)| listener::is_of_this_host(address.ip()))
    }

    /// This after the name of a directory or a device: `, served by …`; empty if only disks of this host serve it.
    pub(crate) fn clause(&self) -> String {
        self.record().map_or_else(String::new, |served| format!(", served by {}", served.by))
    }

    /// This for the record; `None` if only disks of this host serve it.
    pub(crate) fn record(&self) -> Option<Served> {
        let process = |pid: &u32| format!("process {pid}");
        let mut by: Vec<String> = self.clients.iter().map(process).collect();
        by.extend(self.unknown.iter().map(|mount| format!("a process that was not found (FUSE at {})", mount.display())));
        by.extend(self.servers.iter().map(|(address, pids)| {
            let pids: Vec<String> = pids.iter().map(process).collect();
            let pids = if pids.is_empty() { String::new() } else { format!(" ({})", pids.join(", ")) };
            format!("a server at {address}{pids}")
        }));
        let is_counted = self.unknown.is_empty() && self.servers.iter().all(|(_, pids)| !pids.is_empty());
        (!by.is_empty()).then(|| Served { by: by.join(" and "), is_counted })
    }
}

/// A search from a directory to the servers.
#[derive(Default)]
struct Search {
    found: Serving,
    /// Mounts and devices that were searched, by their paths.
    seen: HashSet<PathBuf>,
}

impl Search {
    fn directory(&mut self, path: &Path) {
        let Some(mount) = procfs::mount_of(path) else { return };
        if !self.seen.insert(mount.directory.clone()) {
            return;
        }
        if is_nfs(&mount.kind) {
            self.found.servers.extend(nfs_server(&mount).map(|address| (address, listener::processes_at(address))));
        } else if mount.kind.split('.').next().is_some_and(|kind| kind == "fuse" || kind == "fuseblk") {
            self.fuse(&mount);
        } else {
            self.devices_of(&mount);
        }
    }

    fn fuse(&mut self, mount: &Mount) {
        let processes = fuse_processes(mount);
        if processes.is_empty() {
            self.found.unknown.push(mount.directory.clone());
        }
        for pid in processes {
            self.found.clients.push(pid);
            listener::peers(pid).into_iter().for_each(|address| self.server(address, pid));
        }
    }

    /// Adds the server at the other end of a connection of a client, or of the kernel (0).
    fn server(&mut self, address: SocketAddr, client: u32) {
        let processes = listener::processes_at(address);
        if !processes.contains(&client) && self.found.servers.iter().all(|(known, _)| *known != address) {
            self.found.servers.push((address, processes));
        }
    }

    /// The devices of a mount: of a btrfs all members, of other file systems one.
    fn devices_of(&mut self, mount: &Mount) {
        let number = Path::new("/sys/dev/block").join(&mount.device);
        if number.exists() {
            return self.device(&number);
        }
        let Some(name) = device_name(Path::new(&mount.source)) else { return };
        let file_systems = entries(Path::new("/sys/fs/btrfs"));
        let members = file_systems.iter().map(|file_system| entries(&file_system.join("devices")));
        let of_this = members.filter(|members| members.iter().any(|member| member.ends_with(&name)));
        of_this.flatten().for_each(|member| self.device(&member));
        self.device(&Path::new("/sys/class/block").join(name));
    }

    fn named_device(&mut self, device: &Path) {
        if let Some(name) = device_name(device) {
            self.device(&Path::new("/sys/class/block").join(name));
        }
    }

    /// A device by its directory in sysfs.
    fn device(&mut self, directory: &Path) {
        let Ok(directory) = fs::canonicalize(directory) else { return };
        if !self.seen.insert(directory.clone()) {
            return;
        }
        if directory.join("partition").exists() {
            return directory.parent().into_iter().for_each(|disk| self.device(disk));
        }
        if let Ok(file) = fs::read_to_string(directory.join("loop/backing_file")) {
            self.directory(Path::new(file.trim_end_matches('\n')));
        }
        entries(&directory.join("slaves")).iter().for_each(|below| self.device(below));
        session_addresses(&directory).into_iter().for_each(|address| self.server(address, 0));
    }
}

/// The name of a device's directory in sysfs: `dm-0` of /dev/mapper/x.
fn device_name(device: &Path) -> Option<PathBuf> {
    fs::canonicalize(device).ok()?.file_name().map(PathBuf::from)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The server of a kernel's NFS mount, from its options (nfs(5)).
fn nfs_server(mount: &Mount) -> Option<SocketAddr> {
    let value = |name: &str| mount.file_system_options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    let port = value("port").and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    Some(SocketAddr::new(value("addr")?.parse::<IpAddr>().ok()?, port.unwrap_or(NFS_PORT)))
}

/// Portals of the open-iscsi session that a disk is of, by the disk's directory in sysfs.
fn session_addresses(disk: &Path) -> Vec<SocketAddr> {
    let mut parts = disk.components().filter_map(|part| part.as_os_str().to_str()?.strip_prefix("session"));
    let Some(session) = parts.next_back() else { return Vec::new() };
    let prefix = format!("connection{session}:");
    let connections = entries(Path::new("/sys/class/iscsi_connection"))
        .into_iter()
        .filter(|connection| connection.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix)));
    let read = |connection: &Path, name: &str| fs::read_to_string(connection.join(name)).ok().map(|text| text.trim().to_owned());
    let address = |connection: PathBuf| {
        let address: IpAddr = read(&connection, "persistent_address")?.parse().ok()?;
        Some(SocketAddr::new(address, read(&connection, "persistent_port")?.parse().ok()?))
    };
    connections.filter_map(address).collect()
}

/// The processes that serve a FUSE mount: those whose descriptor of /dev/fuse has its connection (proc_pid_fdinfo(5)). A kernel that does
/// not list connections there: those with an argument that is the mount's directory or the directory above it.
fn fuse_processes(mount: &Mount) -> Vec<u32> {
    let connection = mount.device.rsplit(':').next().unwrap_or_default();
    let serves = |pid: &u32| {
        let descriptors = entries(&PathBuf::from(format!("/proc/{pid}/fd")));
        let mut fuse = descriptors.iter().filter(|fd| fs::read_link(fd).is_ok_and(|target| target == Path::new("/dev/fuse")));
        fuse.any(|fd| {
            let number = fd.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let facts = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
            match facts.lines().find_map(|line| line.strip_prefix("fuse_connection:")) {
                Some(listed) => listed.trim() == connection,
                None => names(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(), &mount.directory),
            }
        })
    };
    procfs::pids().filter(serves).collect()
}

/// Whether a command line (proc_pid_cmdline(5)) has a directory, or the directory above it, as an argument.
fn names(arguments: &[u8], directory: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let is_named = |path: &Path| arguments.split(|byte| *byte == 0).any(|argument| argument == path.as_os_str().as_bytes());
    is_named(directory) || directory.parent().is_some_and(|above| above != Path::new("/") && is_named(above))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_kernel_mount_is_in_its_options() {
        let mount = |options: &str| {
            let line = format!("40 21 0:44 / /mnt/pg rw - nfs4 filer:/pg {options}");
            nfs_server(&::host::mount_table::parse_line(line.as_bytes()).unwrap()).map(|address| address.to_string())
        };
        assert_eq!(mount("rw,vers=4.1,proto=tcp,mountaddr=10.0.0.8,clientaddr=10.0.0.9,addr=10.0.0.2").unwrap(), "10.0.0.2:2049");
        assert_eq!(mount("rw,port=20490,mountport=7,addr=127.0.0.1").unwrap(), "127.0.0.1:20490");
        assert_eq!(mount("rw,port=0,addr=::1").unwrap(), "[::1]:2049");
        assert_eq!(mount("rw"), None);
    }

    #[test]
    fn a_command_line_names_a_mount_by_its_directory_or_the_one_above() {
        let line = b"millrace\0iscsi\0attach-daemon\0/run/millrace-iscsi/d8\0";
        assert!(names(line, Path::new("/run/millrace-iscsi/d8/fuse")) && names(line, Path::new("/run/millrace-iscsi/d8")));
        assert!(!names(line, Path::new("/run/millrace-iscsi/d9/fuse")) && !names(line, Path::new("/run")));
    }

    #[test]
    fn a_server_without_a_process_of_this_host_is_not_counted_and_a_disk_has_no_server() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut serving = Serving { clients: vec![7], servers: vec![(at("127.0.0.1:3260"), vec![9])], unknown: Vec::new() };
        let record = serving.record().unwrap();
        assert_eq!(record.by, "process 7 and a server at 127.0.0.1:3260 (process 9)");
        assert!(record.is_counted && serving.is_on_this_host());
        assert_eq!((serving.clients(), serving.servers()), (vec![7], vec![9]));
        serving.servers.push((at("192.0.2.1:3260"), Vec::new()));
        assert!(!serving.record().unwrap().is_counted);
        let unknown = Serving { unknown: vec!["/mnt/x".into()], ..Serving::default() }.record().unwrap();
        assert!(!unknown.is_counted && unknown.by.contains("FUSE at /mnt/x"), "{unknown:?}");
        assert_eq!(Serving::of(Path::new("/proc")).record(), None);
    }
}
