//! Reading this host, or another root folder: files and commands that only read, as any user.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::collected::Collected;
use super::database::mysql::is_option_file;
use super::database::postgres::files::includes_drop_ins;
use super::layout;
use super::limits::LISTING_MAX;
use super::live_servers;
use super::read_capture::read_some;
use super::runner::{HostRunner, NoRunner, Ran, Runner, run_all};
use super::running;

/// What is read, and how.
pub struct LiveOptions {
    /// Folder that stands for `/`.
    pub root: PathBuf,
    /// Runs commands.
    pub runner: Box<dyn Runner>,
    /// When, RFC 3339; `None` is now.
    pub time: Option<String>,
    /// Texts that somebody else has fetched, by the command that gave them: settings of databases.
    pub fetched: Vec<(String, String)>,
    /// Text of a site file.
    pub site: Option<String>,
    /// Whether database servers are looked for among the processes of this host: not where somebody says which are meant.
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
    /// Reads below another folder and runs nothing.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), runner: Box::new(NoRunner), ..Self::default() }
    }
}

/// Places of [`layout::FILES`] that are walked in their own way, or that only other systems have.
const NOT_LISTED: &[&str] =
    &["/proc/sys/", "/sys/", "/platform/", "/kernel/drv/", "/etc/rc", "/etc/hostname.", "/etc/init.d/", "/etc/driver/"];

/// Folders of which folders below are read as well.
const DEEP: &[&str] = &["/etc/mysql/", "/etc/postgresql/"];

/// Parts of `/proc/sys` that are long and tell nothing of settings.
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

/// Reads everything an audit needs.
pub(super) fn read(options: &LiveOptions) -> Collected {
    let mut collected = Collected { system: "Linux".to_owned(), ..Collected::default() };
    collected.time = options.time.clone().unwrap_or_else(now);
    collected.live = true;
    let reader = Reader { root: &options.root };
    reader.files(&mut collected);
    if options.running_servers {
        reader.running(&mut collected);
    }
    // What ALTER SYSTEM wrote lies beside the data, and is read by whoever may.
    for (_, data) in live_servers::clusters(&collected) {
        reader.take(&format!("{data}/postgresql.auto.conf"), &mut collected);
    }
    live_servers::note_stopped(&options.root, &mut collected);
    reader.sysctl(&mut collected);
    reader.sys(&mut collected);
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = own.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|rest| rest.split_whitespace().nth(1));
    collected.root = uid.map(|uid| uid == "0");
    commands(options, &mut collected);
    for (line, text) in &options.fetched {
        collected.take_command(line, text.as_bytes(), Some(0));
    }
    collected.site.clone_from(&options.site);
    let host = fs::read_to_string(reader.path("/proc/sys/kernel/hostname"))
        .or_else(|_| fs::read_to_string(reader.path("/etc/hostname")));
    host.unwrap_or_default().trim().clone_into(&mut collected.host);
    collected
}

struct Reader<'a> {
    root: &'a Path,
}

impl Reader<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Takes a file when it is there; what may not be read is noted.
    fn take(&self, path: &str, collected: &mut Collected) {
        let at = self.path(path);
        // A pipe or a device in a place of settings would never end.
        let plain = fs::metadata(&at).is_ok_and(|metadata| metadata.is_file());
        if !plain {
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
            // Attributes that do not hold here (the speed of an interface without a link) say so by failing.
            Err(_) => {}
        }
    }

    /// Names in a folder, sorted, bounded.
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
            if place.ends_with('/') || place.ends_with('-') {
                for name in self.names(folder).into_iter().filter(|name| name.starts_with(prefix)) {
                    let path = format!("{folder}/{name}");
                    if DEEP.contains(place) && self.path(&path).is_dir() {
                        self.below(&path, 3, collected);
                    } else {
                        self.take(&path, collected);
                    }
                }
            } else {
                self.take(place, collected);
            }
        }
        for path in oracle_homes(&self.path("/etc/oratab")) {
            for name in self
                .names(&path)
                .into_iter()
                .filter(|name| name == "oranfstab" || (name.starts_with("init") && name.ends_with(".ora")))
            {
                self.take(&format!("{path}/{name}"), collected);
            }
        }
    }

    /// Configuration files of servers that run, wherever these lie.
    fn running(&self, collected: &mut Collected) {
        for server in running::servers(&self.path("/proc")) {
            let words = server.words();
            let pid_file = server.directory.as_deref().map(|folder| self.path(&format!("{folder}/postmaster.pid")));
            let pid_file = pid_file.and_then(|path| fs::read_to_string(path).ok());
            let own_uid = fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
            let config = self.options_of(&server, collected);
            let ask = server.ask(own_uid, pid_file.as_deref(), config.as_deref());
            let Some(config) = server.config.clone() else {
                collected.remarks.push(format!("{words} runs: {ask}"));
                continue;
            };
            let unreadable =
                if server.is_elsewhere { Some("it is in a container") } else { running::unreadable(&self.path(&config)) };
            if let Some(why) = unreadable {
                collected.remarks.push(format!("{words} runs and is not judged, for want of its {config} ({why}): {ask}"));
                continue;
            }
            self.take(&config, collected);
            let (folder, _) = config.rsplit_once('/').unwrap_or_default();
            // Read only where the configuration says so, as the server does.
            if collected.file(&config).is_some_and(includes_drop_ins) {
                let drop_ins = format!("{folder}/conf.d");
                let names = self.names(&drop_ins).into_iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.'));
                names.for_each(|name| self.take(&format!("{drop_ins}/{name}"), collected));
            }
            let data = server.directory.iter().map(|folder| format!("{folder}/postgresql.auto.conf"));
            data.for_each(|path| self.take(&path, collected));
            collected.remarks.push(format!("{words} runs and is judged by its files and its command line: {ask}"));
            collected.running.push(server);
        }
    }

    /// What the files of a server say of where it listens: the one it was started with, else the option files below `/etc`.
    fn options_of(&self, server: &running::Running, collected: &Collected) -> Option<String> {
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

    /// All of `/proc/sys`, as `sysctl -a` prints it.
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

    /// The last part of a link's target, as the text of a file.
    fn link_name(&self, path: &str, collected: &mut Collected) {
        if let Ok(target) = fs::read_link(self.path(path))
            && let Some(name) = target.file_name().and_then(|name| name.to_str())
        {
            collected.take_file(path, name.as_bytes());
        }
    }
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

/// Runs what only commands tell.
fn commands(options: &LiveOptions, collected: &mut Collected) {
    let reader = Reader { root: &options.root };
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut add = |line: &[&str]| lines.push(line.iter().map(|word| (*word).to_owned()).collect());
    add(&["uname", "-a"]);
    add(&["ip", "address"]);
    add(&["ip", "route", "show"]);
    // The topology without asking each path whether it lives, which may hang on dead ones.
    add(&["multipath", "-l"]);
    add(&["iscsiadm", "-m", "session", "-P", "3"]);
    add(&["iscsiadm", "-m", "node", "-o", "show"]);
    add(&["systemctl", "list-unit-files", "--type=service", "--no-legend", "--no-pager"]);
    if reader.path("/var/lib/dpkg/status").exists() {
        add(&["dpkg-query", "-W"]);
    } else {
        add(&["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\n"]);
    }
    // Interfaces with hardware below; a host with more is a switch.
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
    let ran = run_all(options.runner.as_ref(), &lines);
    for (line, ran) in lines.into_iter().zip(ran) {
        let line = line.join(" ").trim_end().replace('\n', "\\n");
        match ran {
            Ran::Ended(code, output, complaint) => {
                if code != 0 {
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

/// The clock as RFC 3339 in UTC, whole seconds.
fn now() -> String {
    // Fails only beyond the year 9999.
    OffsetDateTime::now_utc().truncate_to_second().format(&Rfc3339).unwrap_or_default()
}
