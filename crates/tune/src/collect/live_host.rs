//! Reads this host or another root folder. Any user may run this; it only reads files and runs
//! commands that change nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ask;
use super::collected::Collected;
use super::database::data_directory_here;
use super::database::mysql::{self, is_option_file};
use super::database::parameter_files;
use super::database::postgres;
use super::database::reading::fetch;
use super::iscsi_lock::IscsiLock;
use super::layout;
use super::limits::LISTING_MAX;
use super::live_servers;
use super::read_capture::read_some;
use super::real_paths;
use super::redact::redacted;
use super::runner::{HostRunner, NoRunner, Ran, Runner, run_all};
use super::running::{self, Running};
use super::sources::is_writable;
use crate::facts::{Database, Facts};

/// What is read, and how.
pub struct LiveOptions {
    /// The folder that replaces `/`.
    pub root: PathBuf,
    /// Runs the commands.
    pub runner: Box<dyn Runner>,
    /// The time in RFC 3339 format; `None` for now.
    pub time: Option<String>,
    /// Outputs that the caller fetched, each with its command line: settings of databases.
    pub fetched: Vec<(String, String)>,
    /// The text of a site file.
    pub site: Option<String>,
    /// Whether database servers are searched for among the processes of this host. The caller sets
    /// it unless the user names the servers.
    pub running_servers: bool,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            runner: Box::new(HostRunner),
            time: None,
            fetched: Vec::new(),
            site: None,
            running_servers: false,
        }
    }
}

impl LiveOptions {
    /// Reads below another folder and runs no command.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), runner: Box::new(NoRunner), ..Self::default() }
    }
}

/// Entries of [`layout::FILES`] that have their own reader here, or that only other systems have.
const NOT_LISTED: &[&str] =
    &["/proc/sys/", "/sys/", "/platform/", "/kernel/drv/", "/etc/rc", "/etc/hostname.", "/etc/init.d/", "/etc/driver/"];

/// Folders whose subfolders are read too.
const DEEP: &[&str] = &["/etc/mysql/", "/etc/postgresql/"];

/// Parts of `/proc/sys` that are long and contain no settings.
const SYSCTL_PASSED_OVER: &[&str] = &[
    "net/ipv4/neigh",
    "net/ipv6/neigh",
    "net/ipv6/conf",
    "fs/binfmt_misc",
    "kernel/sched_domain",
    "kernel/random",
    "dev/cdrom",
    "sunrpc/transports",
];

/// Reads everything that an audit needs.
pub(super) fn read(options: &LiveOptions) -> Collected {
    let mut collected = Collected { system: "Linux".to_owned(), ..Collected::default() };
    collected.time = options.time.clone().unwrap_or_else(now);
    collected.live = true;
    let reader = Reader { root: &options.root };
    reader.files(&mut collected);
    let running = running::servers(&reader.path("/proc"));
    if options.running_servers {
        reader.running(&running, &mut collected);
    }
    fetch(&mut collected, postgres::wanted, |path, collected| {
        let data = live_servers::clusters(collected).into_iter().map(|(_, data)| data);
        reader.fetch(path, &reader.owners(data), collected);
    });
    live_servers::note_stopped(&options.root, &running, &mut collected);
    reader.sysctl(&mut collected);
    reader.sys(&mut collected);
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = own.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|rest| rest.split_whitespace().nth(1));
    collected.root = uid.map(|uid| uid == "0");
    commands(options, &mut collected);
    // The package decides which of these files a MySQL or MariaDB server reads.
    let owners = reader.owners(mysql::data_directories(&collected).into_iter());
    reader.deny_unreadable(&owners, &mut collected);
    fetch(&mut collected, mysql::wanted, |path, collected| reader.fetch(path, &owners, collected));
    reader.note_absent(mysql::data_directories(&collected), &mut collected);
    if options.root == Path::new("/") {
        ask::ask(options.runner.as_ref(), &mut collected);
    }
    for (line, text) in &options.fetched {
        reader.note_absent(data_directory_here(line, text), &mut collected);
        collected.take_command(line, text.as_bytes(), Some(0));
    }
    real_paths::take(&options.root, &servers(&collected), &mut collected);
    collected.site.clone_from(&options.site);
    let host = fs::read_to_string(reader.path("/proc/sys/kernel/hostname"))
        .or_else(|_| fs::read_to_string(reader.path("/etc/hostname")));
    host.unwrap_or_default().trim().clone_into(&mut collected.host);
    collected
}

/// The servers that are known from what was read so far.
fn servers(collected: &Collected) -> Facts {
    let mut facts = Facts::default();
    postgres::facts(collected, &mut facts);
    mysql::facts(collected, &mut facts);
    facts
}

struct Reader<'a> {
    root: &'a Path,
}

impl Reader<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Takes a file if it exists. A file that this user may not read is noted as denied.
    fn take(&self, path: &str, collected: &mut Collected) {
        let at = self.path(path);
        // Only regular files are read: a pipe or a device in place of a file might never end.
        if fs::read_link(&at).is_ok_and(|target| target == Path::new("/dev/null")) {
            // A link to /dev/null masks a file with the same name in another folder.
            return collected.take_file(path, b"");
        }
        let metadata = fs::metadata(&at).ok().filter(fs::Metadata::is_file);
        if metadata.as_ref().is_some_and(|metadata| is_writable(metadata.mode())) {
            collected.writable.insert(path.to_owned());
        }
        if metadata.is_none() {
            if let Err(fault) = fs::metadata(&at)
                && fault.kind() == ErrorKind::PermissionDenied
            {
                collected.denied.insert(path.to_owned(), "permission denied".to_owned());
            }
            return;
        }
        match read_some(&at) {
            Ok(bytes) => collected.take_file(path, &bytes),
            Err(fault) if fault.kind() == ErrorKind::PermissionDenied => {
                collected.denied.insert(path.to_owned(), "permission denied".to_owned());
            }
            // Reading some attributes fails if they have no value, such as the speed of an
            // interface without a link.
            Err(_) => {}
        }
    }

    /// Takes what a server reads: the text of a file or the names in a folder. Otherwise notes that
    /// it does not exist or cannot be read.
    ///
    /// `owners` has the users and groups that servers run as. A server cannot read files that only
    /// another user may read, and these never get into a capture.
    fn fetch(&self, path: &str, owners: &BTreeSet<(u32, u32)>, collected: &mut Collected) {
        let at = self.path(path);
        let fault = match fs::metadata(&at) {
            Ok(metadata) if !may_read(&metadata, owners) => {
                return drop(collected.denied.insert(path.to_owned(), OTHERS.to_owned()));
            }
            Ok(metadata) if metadata.is_dir() => match self.listing(&at) {
                Ok(names) => return drop(collected.folders.insert(path.to_owned(), names)),
                Err(fault) => fault,
            },
            Ok(_) => {
                self.take(path, collected);
                let is_known = collected.files.contains_key(path) || collected.absent.contains(path);
                if !is_known && !collected.denied.contains_key(path) {
                    collected.denied.insert(path.to_owned(), "it cannot be read as a file".to_owned());
                }
                return;
            }
            Err(fault) => fault,
        };
        match fault.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                collected.absent.insert(path.to_owned());
            }
            ErrorKind::PermissionDenied => drop(collected.denied.insert(path.to_owned(), "permission denied".to_owned())),
            _ => drop(collected.denied.insert(path.to_owned(), fault.to_string())),
        }
    }

    /// Notes those of these folders that do not exist.
    fn note_absent(&self, folders: impl IntoIterator<Item = String>, collected: &mut Collected) {
        let is_absent = |path: &str| fs::metadata(self.path(path)).is_err_and(|fault| fault.kind() == ErrorKind::NotFound);
        let folders = folders.into_iter().map(|folder| folder.trim_end_matches('/').to_owned());
        collected.absent.extend(folders.filter(|folder| is_absent(folder)));
    }

    /// The users and groups that own these folders.
    fn owners(&self, folders: impl Iterator<Item = String>) -> BTreeSet<(u32, u32)> {
        let all = folders.filter_map(|folder| fs::metadata(self.path(&folder)).ok());
        all.map(|metadata| (metadata.uid(), metadata.gid())).collect()
    }

    /// Removes option files below `/etc` that were already taken, if the server may be unable to
    /// read them.
    fn deny_unreadable(&self, owners: &BTreeSet<(u32, u32)>, collected: &mut Collected) {
        let is_denied = |path: &String| {
            is_option_file(path) && fs::metadata(self.path(path)).is_ok_and(|metadata| !may_read(&metadata, owners))
        };
        let denied: Vec<String> = collected.files.keys().filter(|path| is_denied(path)).cloned().collect();
        for path in denied {
            collected.files.remove(&path);
            collected.denied.insert(path, OTHERS.to_owned());
        }
    }

    /// Names of all files in a folder, without its subfolders.
    fn listing(&self, folder: &Path) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if names.len() >= LISTING_MAX {
                return Err(io::Error::other(format!("it has more than {LISTING_MAX} files")));
            }
            if !entry.path().is_dir() {
                names.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// At most `LISTING_MAX` names in a folder, sorted.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).take(LISTING_MAX).collect();
        names.sort();
        names
    }

    fn files(&self, collected: &mut Collected) {
        for place in layout::FILES
            .iter()
            .filter(|place| !NOT_LISTED.iter().any(|begin| place.starts_with(begin) && **place != "/etc/init.d/netfs"))
        {
            let (folder, prefix) = place.rsplit_once('/').unwrap_or(("", place));
            if place.ends_with(['/', '-', '.']) {
                self.note_folder(place, collected);
                for name in self.names(folder).into_iter().filter(|name| name.starts_with(prefix)) {
                    let path = format!("{folder}/{name}");
                    let is_deep = DEEP.contains(place);
                    if path.ends_with(".mount.d") {
                        self.below(&path, 0, collected);
                        continue;
                    }
                    // Files that no parser reads are not taken.
                    if !is_deep && !layout::wanted(&path) {
                        continue;
                    }
                    if is_deep && self.path(&path).is_dir() {
                        self.below(&path, 3, collected);
                    } else {
                        self.take(&path, collected);
                    }
                }
            } else {
                self.take(place, collected);
            }
        }
        for path in layout::COUNTED_FILES {
            if fs::symlink_metadata(self.path(path)).is_err_and(|fault| fault.kind() == ErrorKind::NotFound) {
                collected.absent.insert((*path).to_owned());
            }
        }
        for path in oracle_homes(&self.path("/etc/oratab")) {
            let names = self.names(&path);
            let is_taken = |name: &&String| {
                *name == "oranfstab" || (name.ends_with(".ora") && (name.starts_with("init") || name.starts_with("spfile")))
            };
            for name in names.iter().filter(is_taken) {
                let file = format!("{path}/{name}");
                self.take(&file, collected);
                let instead = parameter_files::instead_of(&file).into_iter();
                let is_missing =
                    |file: &String| fs::symlink_metadata(self.path(file)).is_err_and(|fault| fault.kind() == ErrorKind::NotFound);
                collected.absent.extend(instead.filter(is_missing));
            }
        }
    }

    /// Notes the names in a folder, or that the folder does not exist or may not be read.
    fn note_folder(&self, folder: &str, collected: &mut Collected) {
        let entries = fs::read_dir(self.path(folder));
        match entries {
            Err(fault) if fault.kind() == ErrorKind::PermissionDenied => {
                collected.denied.insert(folder.trim_end_matches('/').to_owned(), "permission denied".to_owned());
            }
            _ if !layout::COUNTED_FOLDERS.contains(&folder) => {}
            Err(fault) => {
                if fault.kind() == ErrorKind::NotFound {
                    collected.absent.insert(folder.trim_end_matches('/').to_owned());
                }
            }
            Ok(_) => {
                let names = self.names(folder).into_iter().collect();
                collected.folders.insert(folder.trim_end_matches('/').to_owned(), names);
            }
        }
    }

    /// Takes the configuration files of running servers, in any folder.
    fn running(&self, running: &[Running], collected: &mut Collected) {
        for server in running {
            let words = server.words();
            let pid_file = server.directory.as_deref().map(|folder| self.path(&format!("{folder}/postmaster.pid")));
            let pid_file = pid_file.and_then(|path| fs::read_to_string(path).ok());
            let own_uid = fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
            let options = self.options_of(server, collected);
            let ask = server.ask(own_uid, pid_file.as_deref(), options.as_deref());
            let Some(config) = server.config.clone() else {
                let is_judged = server.database == Database::Mysql && !server.is_elsewhere;
                let judged = if is_judged { " and is judged by its files and its command line" } else { "" };
                collected.remarks.push(format!("{words} runs{judged}: {ask}"));
                collected.running.extend(is_judged.then(|| server.clone()));
                continue;
            };
            let unreadable =
                if server.is_elsewhere { Some("it is in a container") } else { running::unreadable(&self.path(&config)) };
            if let Some(why) = unreadable {
                collected.remarks.push(format!("{words} runs and is not judged, for want of its {config} ({why}): {ask}"));
                continue;
            }
            self.take(&config, collected);
            collected.remarks.push(format!("{words} runs and is judged by its files and its command line: {ask}"));
            let dsn = Some(server.dsn(pid_file.as_deref(), options.as_deref()));
            collected.running.push(Running { dsn, ..server.clone() });
        }
    }

    /// The texts in which a server's listen address may be set: the file that it was started with,
    /// otherwise the option files below `/etc`.
    fn options_of(&self, server: &Running, collected: &Collected) -> Option<String> {
        if server.is_elsewhere {
            return None;
        }
        if let Some(config) = &server.config {
            return read_some(&self.path(config)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        }
        let files = collected.files.iter().filter(|(path, _)| path.starts_with("/etc/") && is_option_file(path));
        Some(files.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n"))
    }

    fn below(&self, folder: &str, depth: usize, collected: &mut Collected) {
        for name in self.names(folder) {
            let path = format!("{folder}/{name}");
            if depth > 0 && self.path(&path).is_dir() {
                self.below(&path, depth - 1, collected);
            } else if layout::wanted(&path) && (name.ends_with(".conf") || name.ends_with(".cnf")) {
                self.take(&path, collected);
            }
        }
    }

    /// Reads `/proc/sys` and formats it like the output of `sysctl -a`.
    fn sysctl(&self, collected: &mut Collected) {
        let mut text = String::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((folder, depth)) = open.pop() {
            for name in self.names(&format!("/proc/sys/{folder}")) {
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let at = self.path(&format!("/proc/sys/{path}"));
                if SYSCTL_PASSED_OVER.iter().any(|begin| path.starts_with(begin)) {
                    continue;
                }
                let Ok(metadata) = fs::symlink_metadata(&at) else { continue };
                if metadata.is_dir() {
                    if depth < 8 {
                        open.push((path, depth + 1));
                    }
                    continue;
                }
                if !metadata.is_file() || text.len() > super::limits::FILE_BYTES_MAX / 2 {
                    continue;
                }
                match read_some(&at) {
                    Ok(bytes) => {
                        let said = String::from_utf8_lossy(&bytes);
                        let name = path.replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/");
                        let said: Vec<&str> = said.lines().take(64).collect();
                        text.push_str(&format!("{name} = {}\n", said.join(" ")));
                    }
                    Err(fault) if fault.kind() == ErrorKind::PermissionDenied && collected.denied.len() < LISTING_MAX => {
                        collected.denied.insert(format!("/proc/sys/{path}"), "permission denied".to_owned());
                    }
                    Err(_) => {}
                }
            }
        }
        if !text.is_empty() {
            collected.take_command("sysctl -a", text.as_bytes(), Some(0));
        }
    }

    fn sys(&self, collected: &mut Collected) {
        const QUEUE: &[&str] = &[
            "scheduler",
            "nr_requests",
            "read_ahead_kb",
            "max_sectors_kb",
            "max_hw_sectors_kb",
            "rotational",
            "rq_affinity",
            "nomerges",
        ];
        for disk in self.names("/sys/block").into_iter().filter(|disk| !disk.starts_with("loop") && !disk.starts_with("ram")) {
            let base = format!("/sys/block/{disk}");
            for name in QUEUE {
                self.take(&format!("{base}/queue/{name}"), collected);
            }
            for name in ["device/queue_depth", "device/vendor", "device/model", "device/timeout", "alignment_offset"] {
                self.take(&format!("{base}/{name}"), collected);
            }
            for part in self.names(&base).into_iter().filter(|part| part.starts_with(&disk)) {
                self.take(&format!("{base}/{part}/start"), collected);
                self.take(&format!("{base}/{part}/alignment_offset"), collected);
            }
        }
        for nic in self.names("/sys/class/net").into_iter().filter(|nic| nic != "lo") {
            for name in ["mtu", "speed", "operstate"] {
                self.take(&format!("/sys/class/net/{nic}/{name}"), collected);
            }
            self.link_name(&format!("/sys/class/net/{nic}/device/driver"), collected);
        }
        for (class, names) in [
            ("fc_host", &["speed", "port_state", "symbolic_name", "dev_loss_tmo"][..]),
            ("iscsi_session", &["targetname", "recovery_tmo"]),
            ("nvme-subsystem", &["iopolicy", "model"]),
        ] {
            for thing in self.names(&format!("/sys/class/{class}")) {
                for name in names {
                    self.take(&format!("/sys/class/{class}/{thing}/{name}"), collected);
                }
            }
        }
        for module in self.names("/sys/module") {
            for name in self.names(&format!("/sys/module/{module}/parameters")) {
                self.take(&format!("/sys/module/{module}/parameters/{name}"), collected);
            }
        }
        for name in ["enabled", "defrag"] {
            self.take(&format!("/sys/kernel/mm/transparent_hugepage/{name}"), collected);
        }
    }

    /// Takes the last part of a link's target as the text of a file.
    fn link_name(&self, path: &str, collected: &mut Collected) {
        if let Ok(target) = fs::read_link(self.path(path))
            && let Some(name) = target.file_name().and_then(|name| name.to_str())
        {
            collected.take_file(path, name.as_bytes());
        }
    }
}

/// Why a file was not taken although this user may read it.
const OTHERS: &str = "the server's user may not read it";

/// Whether one of these users and groups may read a file or a folder.
fn may_read(metadata: &fs::Metadata, owners: &BTreeSet<(u32, u32)>) -> bool {
    let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
    let is_one = |(user, group): &(u32, u32)| (*user == uid && mode & 0o400 != 0) || (*group == gid && mode & 0o040 != 0);
    mode & 0o004 != 0 || owners.iter().any(is_one)
}

/// Folders with parameter files, from `/etc/oratab`: `SID:HOME:START`.
fn oracle_homes(oratab: &Path) -> Vec<String> {
    let text = read_some(oratab).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let mut homes: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(home) = line.split(':').nth(1).filter(|home| home.starts_with('/') && !home.contains("..")) {
            let dbs = format!("{}/dbs", home.trim_end_matches('/'));
            if !homes.contains(&dbs) && homes.len() < 32 {
                homes.push(dbs);
            }
        }
    }
    homes
}

/// Runs the commands whose output is in no file.
fn commands(options: &LiveOptions, collected: &mut Collected) {
    let reader = Reader { root: &options.root };
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut add = |line: &[&str]| lines.push(line.iter().map(|word| (*word).to_owned()).collect());
    add(&["uname", "-a"]);
    add(&["ip", "address"]);
    add(&["ip", "route", "show"]);
    // `-l` prints the topology without checking the paths, because a check may hang on a dead path.
    add(&["multipath", "-l"]);
    add(&["iscsiadm", "-m", "session", "-P", "3"]);
    add(&["iscsiadm", "-m", "node", "-o", "show"]);
    add(&["multipath", "-t"]);
    add(&["modprobe", "-c"]);
    add(&["systemd-analyze", "cat-config", "sysctl.d"]);
    if ["/etc/nfsmount.conf", "/etc/nfsmount.conf.d"].iter().any(|path| reader.path(path).exists()) {
        add(&["nfsconf", "--file", "/etc/nfsmount.conf", "--dump"]);
    }
    add(&["systemctl", "list-unit-files", "--type=service", "--no-legend", "--no-pager"]);
    if reader.path("/var/lib/dpkg/status").exists() {
        add(&["dpkg-query", "-W"]);
    } else {
        add(&["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\n"]);
    }
    // Interfaces of hardware. A host with more than 32 is a switch.
    let nics = reader
        .names("/sys/class/net")
        .into_iter()
        .filter(|nic| reader.path(&format!("/sys/class/net/{nic}/device")).exists())
        .take(32);
    for nic in nics {
        for flag in ["", "-i", "-a", "-k", "-g"] {
            let line: Vec<&str> = ["ethtool", flag, &nic].into_iter().filter(|word| !word.is_empty()).collect();
            lines.push(line.into_iter().map(str::to_owned).collect());
        }
    }
    let lock = IscsiLock::before(&options.root);
    let ran = run_all(options.runner.as_ref(), &lines);
    drop(lock);
    for (line, ran) in lines.into_iter().zip(ran) {
        let line = line.join(" ").trim_end().replace('\n', "\\n");
        match ran {
            // An incomplete answer is not used.
            Ran::Ended(_, output, complaint) if is_asked(&line) && is_denied(&output, &complaint) => {
                collected.denied.insert(line, "permission denied".to_owned());
            }
            Ran::Ended(code, output, complaint) => {
                let output = if line == "modprobe -c" { options_alone(&output) } else { output };
                if code != 0 {
                    let complaint = redacted("", &complaint);
                    collected
                        .denied
                        .insert(line.clone(), if complaint.is_empty() { format!("exit code {code}") } else { complaint });
                }
                collected.take_command(&line, &output, Some(code));
            }
            Ran::Not(reason) => drop(collected.denied.insert(line, reason)),
        }
    }
}

/// Whether a command prints a program's configuration.
fn is_asked(line: &str) -> bool {
    ["multipath -t", "modprobe -c", "systemd-analyze ", "nfsconf "].iter().any(|begin| line.starts_with(begin))
}

/// Whether a program could not read a part of its configuration.
fn is_denied(output: &[u8], complaint: &str) -> bool {
    let says = |text: &str| text.to_ascii_lowercase().contains("permission denied");
    says(complaint) || says(&String::from_utf8_lossy(output))
}

/// Keeps the options of modules. No rule uses the thousands of aliases that modprobe prints.
fn options_alone(output: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(output);
    let kept = text.split_inclusive('\n').filter(|line| line.starts_with("options "));
    kept.collect::<String>().into_bytes()
}

/// The current time in RFC 3339 format, in UTC and whole seconds.
fn now() -> String {
    // This fails only after the year 9999.
    OffsetDateTime::now_utc().truncate_to_second().format(&Rfc3339).unwrap_or_default()
}
