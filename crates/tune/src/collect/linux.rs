//! Linux: who it is, its kernel's settings now and after a boot, modules, limits, services, packages.

use std::collections::BTreeMap;

use super::family::Family;
use super::material::Material;
use super::mounts::{self, Mounts};
use super::text::{self, integer, lines, odd, pair, telling, telling_value, unquoted, value, words};
use super::{linux_block, linux_net, linux_scsi};
use crate::facts::{Facts, Value};

/// All facts of a Linux host.
pub(super) fn facts(material: &Material, facts: &mut Facts) {
    identity(material, facts);
    sysctls(material, facts);
    modules(material, facts);
    limits(material, facts);
    services(material, facts);
    packages(material, facts);
    odds(material, facts);
    let mut found = Mounts::default();
    mount_sources(material, &mut found, facts);
    if found.is_empty() {
        facts.put_unknown("mount", &material.why("/proc/self/mountinfo"));
    }
    found.put(Family::Linux, facts);
    mountstats(material, facts);
    linux_net::facts(material, facts);
    linux_block::facts(material, facts);
    linux_scsi::facts(material, facts);
}

fn identity(material: &Material, facts: &mut Facts) {
    for path in ["/etc/os-release", "/usr/lib/os-release"] {
        let Some(text) = material.file(path) else { continue };
        for (_, line) in telling(text, &['#']) {
            match pair(line, '=') {
                Some(("ID", id)) => facts.put("os.distribution", unquoted(id), path),
                Some(("VERSION_ID", version)) => facts.put("os.distribution_version", unquoted(version), path),
                _ => {}
            }
        }
        break;
    }
    if facts.value("os.distribution").is_none()
        && let Some(text) = material.file("/etc/redhat-release")
    {
        let version = words(text).find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
        let update = text.split("Update ").nth(1).and_then(|rest| words(rest).next()).map(|word| word.trim_matches(')'));
        let distribution = if text.starts_with("CentOS") { "centos" } else { "rhel" };
        facts.put("os.distribution", distribution, "/etc/redhat-release");
        if let Some(version) = version {
            let version = update.map_or(version.to_owned(), |update| format!("{version}.{update}"));
            facts.put("os.distribution_version", version, "/etc/redhat-release");
        }
    }
    if let Some(output) = material.output("uname -a").or_else(|| material.output("uname")) {
        if let Some(release) = words(&output.text).nth(2) {
            facts.put("os.release", release, &output.line);
        }
        word_bits(&output.text, &output.line, facts);
    } else if let Some(output) = material.output("uname -r") {
        facts.put("os.release", output.text.trim(), &output.line);
        word_bits(&output.text, &output.line, facts);
    }
    if let Some(text) = material.file("/proc/meminfo") {
        for (_, line) in telling(text, &[]) {
            if let Some((name, size)) = pair(line, ':')
                && let Some(size) = text::bytes(size)
            {
                facts.put(&format!("meminfo.{name}"), size, "/proc/meminfo");
                match name {
                    "MemTotal" => facts.put("hw.memory_bytes", size, "/proc/meminfo"),
                    "Hugepagesize" => facts.put("hw.huge_page_bytes", size, "/proc/meminfo"),
                    _ => {}
                }
            }
        }
    } else {
        facts.put_unknown("hw.memory_bytes", &material.why("/proc/meminfo"));
    }
    if let Some(text) = material.file("/proc/cpuinfo") {
        let count = lines(text).filter(|(_, line)| line.starts_with("processor")).count();
        if count > 0 {
            facts.put("hw.cpu_count", i64::try_from(count).unwrap_or(i64::MAX), "/proc/cpuinfo");
        }
    }
    for (_, line) in material.file("/proc/cmdline").into_iter().flat_map(lines) {
        for word in words(line) {
            let (key, setting) = word.split_once('=').map_or((word, Value::Bool(true)), |(key, setting)| (key, value(setting)));
            // Some are given several times on purpose (console=); the last one counts.
            facts.host.remove(&format!("kernel.cmdline.{key}"));
            facts.put(&format!("kernel.cmdline.{key}"), setting, "/proc/cmdline");
        }
    }
}

fn word_bits(text: &str, origin: &str, facts: &mut Facts) {
    let wide = ["x86_64", "aarch64", "ppc64", "s390x", "amd64", "ia64"].iter().any(|machine| text.contains(machine));
    let narrow = ["i386", "i486", "i586", "i686", "armv7"].iter().any(|machine| text.contains(machine));
    if wide || narrow {
        facts.put("os.word_bits", if wide { 64_i64 } else { 32 }, origin);
    }
}

/// Lines `key = value` of `sysctl`, with slashes or dots.
fn sysctl_lines<'a>(text: &'a str, origin: &str, facts: &mut Facts) -> Vec<(usize, String, &'a str)> {
    let mut found = Vec::new();
    for (number, line) in telling(text, &['#', ';']) {
        match pair(line, '=') {
            Some((key, value)) => {
                let key = key.trim_start_matches('-').trim();
                // The first separator says which of both forms it is.
                let key = match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
                    Some(b'/') => key.replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/"),
                    _ => key.to_owned(),
                };
                found.push((number, key, value));
            }
            // `sysctl -a` says so of what it may not read.
            None if line.starts_with("sysctl:") || line.contains("permission denied") => {}
            None => odd(facts, origin, number, line),
        }
    }
    found
}

fn sysctls(material: &Material, facts: &mut Facts) {
    let mut running = BTreeMap::new();
    for (_, output) in material.outputs("sysctl -a") {
        for (_, key, text) in sysctl_lines(&output.text, &output.line, facts) {
            put_sysctl("sysctl", &key, value(text), &output.line, facts);
            running.insert(key, value(text));
        }
    }
    for (path, text) in material.files_under("/proc/sys/") {
        let key = path.trim_start_matches("/proc/sys/").replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/");
        put_sysctl("sysctl", &key, value(text), path, facts);
        running.insert(key, value(text));
    }
    if running.is_empty() {
        facts.put_unknown("sysctl.", &material.why("sysctl -a"));
    }
    for (path, reason) in material.denied.iter().filter(|(path, _)| path.starts_with("/proc/sys/")) {
        facts.put_unknown(
            &format!("sysctl.{}", path.trim_start_matches("/proc/sys/").replace('/', ".")),
            &format!("{path}: {reason}"),
        );
    }
    for (key, copies) in persistent_sysctls(material, facts) {
        let Some((value, origin)) = copies.last().cloned() else { continue };
        put_sysctl("persistent.sysctl", &key, value.clone(), &origin, facts);
        let Some(running) = running.get(&key) else { continue };
        let name = format!("sysctl {key}");
        setting(&name, running.clone(), value, &origin, facts);
        let mut files: Vec<Value> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        for (value, origin) in copies {
            let file = Value::from(origin.rsplit_once(':').map_or(origin.as_str(), |(file, _)| file));
            if !files.contains(&file) {
                files.push(file);
            }
            if !values.contains(&value) {
                values.push(value);
            }
        }
        facts.put_of("setting", &name, "files", Value::List(files), &origin);
        facts.put_of("setting", &name, "values", Value::List(values), &origin);
    }
}

/// Notes a value; of several numbers each by its place as well, from 1: `sysctl.net.ipv4.tcp_rmem.3`.
fn put_sysctl(prefix: &str, key: &str, value: Value, origin: &str, facts: &mut Facts) {
    if let Value::Text(text) = &value {
        let parts: Option<Vec<i64>> = words(text).map(integer).collect();
        for (index, part) in parts.filter(|parts| parts.len() <= 8).into_iter().flatten().enumerate() {
            facts.put(&format!("{prefix}.{key}.{}", index + 1), part, origin);
        }
    }
    facts.put(&format!("{prefix}.{key}"), value, origin);
}

/// What `sysctl --system` would set, each copy in the order read, the last one counts: files by name, those of /etc before those of
/// the same name elsewhere, the old file last.
fn persistent_sysctls(material: &Material, facts: &mut Facts) -> BTreeMap<String, Vec<(Value, String)>> {
    let mut files: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for folder in ["/usr/lib/sysctl.d/", "/run/sysctl.d/", "/etc/sysctl.d/"] {
        for (path, text) in material.files_under(folder).filter(|(path, _)| path.ends_with(".conf")) {
            files.insert(path.rsplit('/').next().unwrap_or(path).to_owned(), (path, text));
        }
    }
    let old = material.file("/etc/sysctl.conf").map(|text| ("/etc/sysctl.conf", text));
    let mut found: BTreeMap<String, Vec<(Value, String)>> = BTreeMap::new();
    for (path, text) in files.into_values().chain(old) {
        for (number, key, text) in sysctl_lines(text, path, facts) {
            let copies = found.entry(key).or_default();
            // Of many copies the last is what counts; a file with a thousand is no configuration.
            if copies.len() < 64 {
                copies.push((value(text), format!("{path}:{number}")));
            } else if let Some(last) = copies.last_mut() {
                *last = (value(text), format!("{path}:{number}"));
            }
        }
    }
    found
}

/// Notes a setting that has two copies.
pub(super) fn setting(name: &str, running: Value, persistent: Value, origin: &str, facts: &mut Facts) {
    let persistent = match (&running, &persistent) {
        (Value::Bool(_), Value::Int(number)) => Value::Bool(*number != 0),
        (Value::Int(_), Value::Bool(yes)) => Value::Int(i64::from(*yes)),
        _ => persistent,
    };
    facts.put_of("setting", name, "running", running, origin);
    facts.put_of("setting", name, "persistent", persistent, origin);
    facts.put_of("setting", name, "file", origin.rsplit_once(':').map_or(origin, |(file, _)| file), origin);
}

fn modules(material: &Material, facts: &mut Facts) {
    for (path, reason) in &material.denied {
        if let Some((module, name)) = path.strip_prefix("/sys/module/").and_then(|rest| rest.split_once("/parameters/")) {
            facts.put_unknown(&format!("module.{module}.{name}"), &format!("{path}: {reason}"));
        }
    }
    for (path, text) in material.files_under("/sys/module/") {
        let mut parts = path.trim_start_matches("/sys/module/").splitn(3, '/');
        if let (Some(module), Some("parameters"), Some(name)) = (parts.next(), parts.next(), parts.next()) {
            facts.put(&format!("module.{module}.{name}"), telling_value(text.trim()), path);
        } else if let Some((module, "version")) = path.trim_start_matches("/sys/module/").split_once('/') {
            facts.put(&format!("module_version.{module}"), text.trim(), path);
        }
    }
    let mut found = BTreeMap::new();
    let old = material.file("/etc/modprobe.conf").map(|text| ("/etc/modprobe.conf", text));
    for (path, text) in old.into_iter().chain(material.files_under("/etc/modprobe.d/")) {
        for (number, line) in telling(text, &['#']) {
            let mut line = words(line);
            if let (Some("options"), Some(module)) = (line.next(), line.next()) {
                for word in line {
                    let (key, setting) = word.split_once('=').unwrap_or((word, "1"));
                    found.insert(
                        format!("{}.{key}", module.replace('-', "_")),
                        (telling_value(unquoted(setting)), format!("{path}:{number}")),
                    );
                }
            }
        }
    }
    for (key, (value, origin)) in found {
        facts.put(&format!("persistent.module.{key}"), value.clone(), &origin);
        if let Some(running) = facts.value(&format!("module.{key}")).cloned() {
            setting(&format!("module {key}"), running, value, &origin, facts);
        }
    }
}

fn limits(material: &Material, facts: &mut Facts) {
    let mut found = BTreeMap::new();
    if material.file("/etc/security/limits.conf").is_none() && material.files_under("/etc/security/limits.d/").next().is_none() {
        facts.put_unknown("limit.", &material.why("/etc/security/limits.conf"));
    }
    let main = material.file("/etc/security/limits.conf").map(|text| ("/etc/security/limits.conf", text));
    for (path, text) in main.into_iter().chain(material.files_under("/etc/security/limits.d/")) {
        for (number, line) in telling(text, &['#']) {
            let line = line.split('#').next().unwrap_or(line);
            let all: Vec<&str> = words(line).collect();
            let [user, kind, item, amount] = all.as_slice() else {
                odd(facts, path, number, line);
                continue;
            };
            // Beyond any number, so that a rule can ask for at least so many.
            let amount = match *amount {
                "unlimited" | "infinity" | "-1" => Value::Int(i64::MAX),
                amount => value(amount),
            };
            let user = if *user == "*" { "default" } else { user };
            let kinds: &[&str] = match *kind {
                "-" => &["soft", "hard"],
                "soft" => &["soft"],
                "hard" => &["hard"],
                _ => {
                    odd(facts, path, number, line);
                    continue;
                }
            };
            for kind in kinds {
                found.insert(format!("limit.{user}.{kind}.{item}"), (amount.clone(), format!("{path}:{number}")));
            }
        }
    }
    for (name, (value, origin)) in found {
        facts.put(&name, value, &origin);
    }
    for (path, text) in material.files_under("/etc/pam.d/") {
        let service = path.trim_start_matches("/etc/pam.d/");
        let has = telling(text, &['#']).any(|(_, line)| line.contains("pam_limits.so"));
        facts.put(&format!("pam.{service}.limits"), has, path);
    }
}

fn services(material: &Material, facts: &mut Facts) {
    let listed = |begin: &str| material.outputs(begin).any(|(_, output)| !output.text.trim().is_empty());
    if !listed("systemctl list-unit-files") && !listed("chkconfig") {
        let line =
            material.denied.keys().find(|line| line.starts_with("systemctl")).map_or("systemctl list-unit-files", String::as_str);
        facts.put_unknown("service.", &material.why(line));
    }
    if !["rpm", "installed-rpms", "sh -c rpm", "dpkg", "dpkg-query", "installed-debs"].iter().any(|begin| listed(begin)) {
        facts.put_unknown("package.", "no list of packages was collected");
    }
    for (_, output) in material.outputs("systemctl list-unit-files") {
        for (_, line) in telling(&output.text, &[]) {
            let mut line = words(line);
            if let (Some(unit), Some(state)) = (line.next(), line.next())
                && let Some(name) = unit.strip_suffix(".service").or_else(|| unit.strip_suffix(".timer").map(|_| unit))
            {
                facts.put(&format!("service.{name}"), if state.starts_with("enabled") { "enabled" } else { state }, &output.line);
            }
        }
    }
    for (_, output) in material.outputs("chkconfig") {
        for (_, line) in telling(&output.text, &[]) {
            if let Some(name) = words(line).next().filter(|_| line.contains("3:")) {
                let on = line.contains("3:on") || line.contains("5:on");
                facts.put(&format!("service.{name}"), if on { "enabled" } else { "disabled" }, &output.line);
            }
        }
    }
}

fn packages(material: &Material, facts: &mut Facts) {
    for begin in ["rpm", "installed-rpms", "sh -c rpm"] {
        for (_, output) in material.outputs(begin) {
            for (_, line) in telling(&output.text, &[]) {
                let all: Vec<&str> = words(line).collect();
                match all.as_slice() {
                    [name, version] if version.starts_with(|letter: char| letter.is_ascii_digit()) => {
                        facts.put(&format!("package.{name}"), *version, &output.line);
                    }
                    [full, ..] => {
                        let full = ["x86_64", "noarch", "i386", "i586", "i686", "aarch64", "ia64", "ppc64le", "s390x"]
                            .iter()
                            .find_map(|arch| full.strip_suffix(arch).and_then(|rest| rest.strip_suffix('.')))
                            .unwrap_or(full);
                        let mut parts = full.rsplitn(3, '-');
                        if let (Some(release), Some(version), Some(name)) = (parts.next(), parts.next(), parts.next()) {
                            package(name, &format!("{version}-{release}"), &output.line, facts);
                        }
                    }
                    [] => {}
                }
            }
        }
    }
    for begin in ["dpkg", "dpkg-query", "installed-debs"] {
        for (_, output) in material.outputs(begin) {
            for (_, line) in telling(&output.text, &[]) {
                match words(line).collect::<Vec<_>>().as_slice() {
                    ["ii", name, version, ..] | [name, version] => {
                        package(name.split(':').next().unwrap_or(name), version, &output.line, facts)
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Several versions of one package (kernels) are no contradiction: the last one listed stays.
fn package(name: &str, version: &str, origin: &str, facts: &mut Facts) {
    let name = format!("package.{name}");
    facts.host.remove(&name);
    facts.put(&name, version, origin);
}

fn odds(material: &Material, facts: &mut Facts) {
    for name in ["enabled", "defrag"] {
        let path = format!("/sys/kernel/mm/transparent_hugepage/{name}");
        match material.file(&path) {
            Some(text) => facts.put(&format!("thp.{name}"), chosen(text), &path),
            None => facts.put_unknown(&format!("thp.{name}"), &material.why(&path)),
        }
    }
    if let Some(text) = material.file("/etc/tuned/active_profile") {
        facts.put("tuned.profile", text.trim(), "/etc/tuned/active_profile");
    }
    for (_, output) in material.outputs("tuned-adm active") {
        if let Some((_, profile)) = output.text.split_once("profile:") {
            facts.put("tuned.profile", profile.trim(), &output.line);
        }
    }
    if let Some(text) = material.file("/etc/sysconfig/oracleasm") {
        for (number, line) in telling(text, &['#']) {
            match pair(line, '=') {
                Some((key, value)) => {
                    facts.put(&format!("oracleasm.{key}"), unquoted(value), &format!("/etc/sysconfig/oracleasm:{number}"))
                }
                None => odd(facts, "/etc/sysconfig/oracleasm", number, line),
            }
        }
    }
    if let Some(text) = material.file("/etc/init.d/netfs") {
        // "First" is before anything is mounted.
        let loads = lines(text).position(|(_, line)| line.contains("sysctl -p") && !line.trim_start().starts_with('#'));
        let mounts = lines(text).position(|(_, line)| line.contains("mount -a"));
        let first = loads.is_some_and(|load| mounts.is_none_or(|mount| load < mount));
        facts.put("initscript.netfs.sysctl_first", first, "/etc/init.d/netfs");
    }
    for path in ["/home/oracle/.bash_profile", "/root/.bash_profile"] {
        for (number, line) in material.file(path).into_iter().flat_map(|text| telling(text, &['#'])) {
            let mut line = words(line).skip_while(|word| *word != "ulimit").skip(1);
            if let (Some(flag), Some(amount)) = (line.next(), line.next())
                && path.contains("oracle")
            {
                let item = match flag {
                    "-n" => "nofile",
                    "-u" => "nproc",
                    "-s" => "stack",
                    "-l" => "memlock",
                    flag => flag.trim_start_matches('-'),
                };
                let name = format!("ulimit.oracle.{item}");
                facts.put(
                    &name,
                    if amount == "unlimited" { Value::Int(i64::MAX) } else { value(amount) },
                    &format!("{path}:{number}"),
                );
            }
        }
    }
}

/// The word in brackets: `always [madvise] never`.
pub(super) fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inner, _)| inner);
    inner.unwrap_or(text.trim()).to_owned()
}

fn mount_sources(material: &Material, found: &mut Mounts, facts: &mut Facts) {
    for path in ["/proc/self/mountinfo", "/proc/1/mountinfo"] {
        if let Some(text) = material.file(path) {
            mounts::mountinfo(text, path, found, facts);
            break;
        }
    }
    for path in ["/proc/mounts", "/proc/self/mounts", "/etc/mtab"] {
        if let Some(text) = material.file(path).filter(|_| found.is_empty()) {
            mounts::mount_table(text, path, found, facts);
        }
    }
    for (_, output) in material.outputs("nfsstat -m") {
        mounts::nfsstat(&output.text, &output.line, found);
    }
    for (_, output) in material.outputs("mount").filter(|_| found.is_empty()).collect::<Vec<_>>() {
        mounts::mount_command(&output.text, &output.line, found, facts);
    }
    if let Some(text) = material.file("/etc/fstab") {
        mounts::fstab(text, "/etc/fstab", found, facts);
    }
}

/// `/proc/self/mountstats`: what the transports of each mount have seen.
fn mountstats(material: &Material, facts: &mut Facts) {
    const PATH: &str = "/proc/self/mountstats";
    let mut point = None;
    let (mut transports, mut slots) = (0_i64, 0_i64);
    let end = [(0, "device end mounted on end with fstype end")];
    for (_, line) in material.file(PATH).into_iter().flat_map(lines).chain(end) {
        if let Some(rest) = line.strip_prefix("device ") {
            if let Some(point) = point.take().filter(|_| transports > 0) {
                facts.put_of("mount", point, "transports", transports, PATH);
                if slots > 0 {
                    facts.put_of("mount", point, "slots_used_max", slots, PATH);
                }
            }
            (transports, slots) = (0, 0);
            point =
                rest.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype nfs")).map(|(point, _)| point);
        } else if let Some(rest) = line.trim_start().strip_prefix("xprt:") {
            transports += 1;
            // xprt: tcp, then ten counters, then the most slots in use at a time (net/sunrpc/xprtsock.c).
            slots = slots.max(words(rest).nth(11).and_then(integer).unwrap_or(0));
        }
    }
}
