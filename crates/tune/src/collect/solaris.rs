//! Facts of Solaris hosts.

use super::collected::Collected;
use super::family::Family;
use super::mounts::{self, Mounts, Table};
use super::persistent::{put_setting, running_mtu};
use super::text::{self, integer, lines, odd, pair, telling, unquoted, value, words};
use crate::facts::{Facts, Value};

/// All facts of a Solaris host.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    identity(collected, facts);
    let system = collected.file("/etc/system");
    match system {
        Some(text) => etc_system(text, facts),
        None => facts.put_unknown("solaris.system.", &collected.why("/etc/system")),
    }
    ndd(collected, facts);
    drivers(collected, facts);
    projects(collected, facts);
    interfaces(collected, facts);
    threads(collected, facts);
    let mut found = Mounts::default();
    if let Some(text) = collected.file("/etc/mnttab") {
        mounts::mount_table(text, "/etc/mnttab", &mut found, facts);
    }
    for (_, output) in collected.outputs("nfsstat -m") {
        mounts::nfsstat(&output.text, &output.line, &mut found);
    }
    for (_, output) in collected.outputs("mount") {
        mounts::mount_command(&output.text, &output.line, &mut found, facts);
    }
    if let Some(text) = collected.file("/etc/vfstab") {
        mounts::vfstab(text, "/etc/vfstab", &mut found, facts);
    }
    found.note_unread(&[Table::File("/etc/mnttab"), Table::Command("mount")], "/etc/vfstab", collected);
    if found.is_empty() {
        facts.put_unknown("mount", &collected.why("nfsstat -m"));
    }
    found.put(Family::Solaris, facts);
}

fn identity(collected: &Collected, facts: &mut Facts) {
    if let Some(text) = collected.file("/etc/release") {
        let line = lines(text).map(|(_, line)| line.trim()).find(|line| !line.is_empty()).unwrap_or_default();
        let mut all = words(line).skip_while(|word| *word != "Solaris").skip(1);
        if let Some(version) = all.next() {
            let version = integer(version)
                .map_or(version.to_owned(), |number| if number < 11 { format!("5.{number}") } else { format!("5.{version}") });
            facts.put("os.release", version, "/etc/release");
        }
        // s9s_u5wos_08b is the fifth update.
        let update = words(line).find_map(|word| {
            word.split_once("_u").and_then(|(_, rest)| rest.split_once("wos")).and_then(|(number, _)| integer(number))
        });
        facts.put("solaris.update", update.unwrap_or(0), "/etc/release");
        facts.put("os.distribution_version", line, "/etc/release");
    }
    for (_, output) in collected.outputs("uname") {
        let all: Vec<&str> = words(&output.text).collect();
        if let Some(release) = all.get(2).filter(|_| all.first() == Some(&"SunOS")) {
            facts.put("os.release", *release, &output.line);
        }
    }
    for (_, output) in collected.outputs("isainfo") {
        let bits = if output.text.contains("64") {
            Some(64_i64)
        } else if output.text.contains("32") {
            Some(32)
        } else {
            None
        };
        if let Some(bits) = bits {
            facts.put("os.word_bits", bits, &output.line);
        }
    }
    for (_, output) in collected.outputs("prtconf") {
        // "Memory size: 8192 Megabytes"
        let size = output.text.split("Memory size:").nth(1).and_then(|rest| words(rest).next()).and_then(integer);
        if let Some(size) = size {
            facts.put("hw.memory_bytes", size.saturating_mul(1 << 20), &output.line);
        }
    }
    for (_, output) in collected.outputs("psrinfo") {
        let count =
            telling(&output.text, &[]).filter(|(_, line)| line.starts_with(|letter: char| letter.is_ascii_digit())).count();
        if count > 0 {
            facts.put("hw.cpu_count", i64::try_from(count).unwrap_or(i64::MAX), &output.line);
        }
    }
}

/// Lines `set module:variable = value`. A comment begins with `*` or `#`.
fn etc_system(text: &str, facts: &mut Facts) {
    const PATH: &str = "/etc/system";
    for (number, line) in telling(text, &['*', '#']) {
        let line = line.split(['*', '#']).next().unwrap_or(line).trim();
        match line.strip_prefix("set").filter(|rest| rest.starts_with([' ', '\t'])) {
            Some(rest) => match pair(rest, '=') {
                Some((name, setting)) => {
                    facts.put(&format!("solaris.system.{name}"), value(setting), &format!("{PATH}:{number}"))
                }
                None => odd(facts, PATH, number, line),
            },
            None if ["forceload", "moddir", "rootdev", "rootfs", "exclude", "include"]
                .iter()
                .any(|word| line.starts_with(word)) => {}
            // Without `set`, a line `module:variable=value` has no effect.
            None => facts.remark(format!("{PATH}:{number} lacks `set` and has no effect: {:?}", text::head(line, 80))),
        }
    }
}

/// Outputs of `ndd -get /dev/tcp tcp_recv_hiwat`, and the lines with `ndd -set` in start scripts.
fn ndd(collected: &Collected, facts: &mut Facts) {
    let mut any = false;
    for (rest, output) in collected.outputs("ndd -get") {
        any = true;
        let Some((driver, parameter)) = device_and_rest(&rest) else { continue };
        // In a slug, hyphens replace the underscores of the parameter.
        let parameter = parameter.replace('-', "_");
        if let Some((_, line)) = telling(&output.text, &[]).next().filter(|_| output.exit.is_none_or(|code| code == 0)) {
            facts.put(&format!("solaris.ndd.{driver}.{parameter}"), value(line), &output.line);
        }
    }
    for (_, output) in collected.outputs("ipadm show-prop") {
        any = true;
        for (_, line) in telling(&output.text, &[]) {
            if let [protocol, property, _, current, persistent, ..] = words(line).collect::<Vec<_>>().as_slice() {
                if *protocol == "PROTO" {
                    continue;
                }
                // The names that ndd has for these settings.
                let name = match *property {
                    "recv_buf" | "recv_maxbuf" => "tcp_recv_hiwat",
                    "send_buf" | "send_maxbuf" => "tcp_xmit_hiwat",
                    "max_buf" => "tcp_max_buf",
                    other => other,
                };
                let name = if *protocol == "tcp" { name } else { property };
                facts.put(&format!("solaris.ndd.{protocol}.{name}"), value(current), &output.line);
                if *persistent != "--" {
                    facts.put(&format!("persistent.solaris.ndd.{protocol}.{name}"), value(persistent), &output.line);
                }
            }
        }
    }
    for folder in ["/etc/rc2.d/", "/etc/init.d/", "/etc/rc.local"] {
        for (path, text) in collected.files_under(folder) {
            for (number, line) in telling(text, &['#']).filter(|(_, line)| line.contains("ndd -set")) {
                let mut all = words(line).skip_while(|word| *word != "-set").skip(1);
                let (Some(device), Some(parameter), Some(setting_text)) = (all.next(), all.next(), all.next()) else {
                    odd(facts, path, number, line);
                    continue;
                };
                let name = format!("{}.{parameter}", device.trim_start_matches("/dev/"));
                let origin = format!("{path}:{number}");
                facts.put(&format!("persistent.solaris.ndd.{name}"), value(setting_text), &origin);
                if let Some(running) = facts.host.get(&format!("solaris.ndd.{name}")).cloned() {
                    put_setting(&format!("ndd {name}"), &running, value(setting_text), &origin, facts);
                }
            }
        }
    }
    if !any {
        facts.put_unknown("solaris.ndd.", &collected.why("ndd -get /dev/tcp tcp_recv_hiwat"));
    }
}

/// Driver and parameter of `/dev/tcp name`, or of a slug of it.
pub(super) fn device_and_rest(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix("/dev/").or_else(|| rest.strip_prefix("dev-")).unwrap_or(rest);
    let (driver, parameter) = rest.split_once([' ', '-'])?;
    Some((driver, parameter.trim()))
}

/// `drv.conf` files with `key=value;`.
fn drivers(collected: &Collected, facts: &mut Facts) {
    let folders = ["/platform/", "/kernel/drv/", "/etc/driver/"];
    if !folders.iter().any(|folder| collected.files_under(folder).any(|(path, _)| path.ends_with("/ce.conf"))) {
        facts.put_unknown("solaris.driver.ce.", &collected.why("/platform/sun4u/kernel/drv/ce.conf"));
    }
    for folder in folders {
        for (path, text) in collected.files_under(folder).filter(|(path, _)| path.ends_with(".conf")) {
            let driver = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".conf");
            for (number, line) in telling(text, &['#']) {
                for part in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
                    match pair(part, '=') {
                        Some(("name" | "parent" | "unit-address" | "instance" | "target" | "lun", _)) => {}
                        Some((key, setting)) => facts.put(
                            &format!("solaris.driver.{driver}.{key}"),
                            value(unquoted(setting)),
                            &format!("{path}:{number}"),
                        ),
                        None => odd(facts, path, number, part),
                    }
                }
            }
        }
    }
}

/// Lines of `/etc/project`: `name:id:comment:users:groups:attributes`.
fn projects(collected: &Collected, facts: &mut Facts) {
    const PATH: &str = "/etc/project";
    for (number, line) in collected.file(PATH).into_iter().flat_map(|text| telling(text, &['#'])) {
        let parts: Vec<&str> = line.splitn(6, ':').collect();
        let [name, _, _, _, _, attributes] = parts.as_slice() else {
            odd(facts, PATH, number, line);
            continue;
        };
        for (control, said) in attributes.split(';').filter_map(|part| pair(part, '=')) {
            let amount = said.trim_matches(['(', ')']).split(',').nth(1).unwrap_or(said);
            facts.put(&format!("solaris.project.{name}.{control}"), value(amount), &format!("{PATH}:{number}"));
        }
    }
}

fn interfaces(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("ifconfig").filter(|(_, output)| !super::ontap7::is_filers(&output.text)) {
        let mut nic = String::new();
        for (number, line) in lines(&output.text) {
            if line.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                // A logical interface (ce0:1) has the values of its physical interface.
                line.split(':').next().unwrap_or_default().clone_into(&mut nic);
                let mtu = line.split_once(" mtu ").and_then(|(_, rest)| words(rest).next()).and_then(integer);
                match mtu {
                    Some(mtu) if nic != "lo0" => {
                        facts.put_of("nic", &nic, "mtu", mtu, &output.line);
                        let driver = nic.trim_end_matches(|letter: char| letter.is_ascii_digit());
                        facts.put_of("nic", &nic, "driver", driver, &output.line);
                    }
                    Some(_) => {}
                    None => odd(facts, &output.line, number, line),
                }
            } else if let Some(address) =
                line.trim().strip_prefix("inet ").and_then(|rest| words(rest).next()).filter(|_| nic != "lo0" && !nic.is_empty())
            {
                let mask = line
                    .split_once("netmask ")
                    .and_then(|(_, rest)| words(rest).next())
                    .and_then(|mask| u32::from_str_radix(mask, 16).ok());
                let address = mask.map_or(address.to_owned(), |mask| format!("{address}/{}", mask.count_ones()));
                super::linux::net::address_of(&nic, &address, &output.line, facts);
            }
        }
    }
    for (path, text) in collected.files_under("/etc/hostname.") {
        let nic = path.trim_start_matches("/etc/hostname.");
        let words: Vec<&str> = words(text).collect();
        let mtu = words.iter().position(|word| *word == "mtu").and_then(|at| words.get(at + 1)).and_then(|mtu| integer(mtu));
        facts.put_of("nic", nic, "persistent_mtu", mtu.unwrap_or(1500), path);
        if let Some(running) = running_mtu(nic, facts) {
            put_setting(&format!("nic {nic} mtu"), &running, mtu.unwrap_or(1500).into(), path, facts);
        }
    }
    for (_, output) in collected.outputs("modinfo") {
        // " 85 7b60e000  2c1e4 181   1  ce (CE Ethernet Driver v1.148)"
        for (_, line) in telling(&output.text, &[]) {
            let driver = words(line).nth(5).unwrap_or_default();
            let version = line.rsplit_once(" v").map(|(_, rest)| rest.trim_matches(')'));
            let nics: Vec<String> = facts.things.get("nic").into_iter().flatten().map(|(nic, _)| nic.clone()).collect();
            for nic in nics.iter().filter(|nic| nic.trim_end_matches(|letter: char| letter.is_ascii_digit()) == driver) {
                if let Some(version) = version {
                    facts.put_of("nic", nic, "driver_version", version, &output.line);
                }
            }
        }
    }
    for (_, output) in collected.outputs("dladm show-linkprop") {
        for (_, line) in telling(&output.text, &[]) {
            if let [link, "mtu", _, current, ..] = words(line).collect::<Vec<_>>().as_slice()
                && let Some(mtu) = integer(current)
            {
                facts.put_of("nic", link, "mtu", mtu, &output.line);
            }
        }
    }
}

/// Outputs of `ps -efL` and `ps -eo nlwp,args`. The number of threads of Oracle's writers shows
/// whether they write in parallel.
fn threads(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("ps") {
        for (name, mark) in [("oracle.lgwr_lwp_count", "_lgwr_"), ("oracle.dbwr_lwp_count", "_dbw")] {
            let found: Vec<&str> =
                lines(&output.text).map(|(_, line)| line).filter(|line| line.contains(mark) && line.contains("ora")).collect();
            let first = lines(&output.text).next().map(|(_, line)| line).unwrap_or_default();
            let column = words(first).position(|word| word == "NLWP");
            let counts = found.iter().filter_map(|line| words(line).nth(column?).and_then(integer));
            let count = counts
                .max()
                .or_else(|| (column.is_none() && !found.is_empty()).then_some(i64::try_from(found.len()).unwrap_or(i64::MAX)));
            if let Some(count) = count {
                facts.put(name, Value::Int(count), &output.line);
            }
        }
    }
}
