//! Tables of mounts as files of each system have them and its commands print them.

use host::mount_table::{self, unescaped_text};

use super::{Mounts, server, split};
use crate::collect::text::{self, odd, telling, words};
use crate::facts::Facts;

/// Reads `/proc/self/mountinfo`.
pub(in crate::collect) fn mountinfo(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in telling(text, &[]) {
        let Some(mount) = mount_table::parse_line(line.as_bytes()) else {
            odd(facts, origin, number, line);
            continue;
        };
        let mut options = split(&mount.options);
        options.extend(split(&mount.file_system_options));
        mounts.running(&mount.directory.to_string_lossy(), &mount.source, &mount.kind, options, origin);
    }
}

/// Reads `/proc/mounts`, `/etc/mtab`, or Solaris' `/etc/mnttab`: source, point, type, options.
pub(in crate::collect) fn mount_table(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        match words(line).collect::<Vec<_>>().as_slice() {
            [source, point, fstype, options, ..] => {
                mounts.running(&unescaped_text(point), &unescaped_text(source), fstype, split(options), origin)
            }
            _ => odd(facts, origin, number, line),
        }
    }
}

/// Reads `/etc/fstab` of Linux and HP-UX.
pub(in crate::collect) fn fstab(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        match words(line).collect::<Vec<_>>().as_slice() {
            [_, _, fstype, ..] if matches!(*fstype, "swap" | "swapfs" | "dump" | "ignore") => {}
            [source, point, fstype, rest @ ..] => {
                let options = split(rest.first().copied().unwrap_or("defaults"));
                mounts.persistent(
                    &unescaped_text(point),
                    &unescaped_text(source),
                    fstype,
                    options,
                    &format!("{origin}:{number}"),
                );
            }
            _ => odd(facts, origin, number, line),
        }
    }
}

/// Reads `/etc/vfstab` of Solaris: device, device to check, point, type, pass, at boot, options.
pub(in crate::collect) fn vfstab(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        match words(line).collect::<Vec<_>>().as_slice() {
            [_, _, point, ..] if *point == "-" => {}
            [source, _, point, fstype, _, boot, rest @ ..] => {
                let mut options = split(rest.first().copied().unwrap_or_default());
                if *boot == "no" {
                    options.push("noauto".to_owned());
                }
                mounts.persistent(point, source, fstype, options, &format!("{origin}:{number}"));
            }
            _ => odd(facts, origin, number, line),
        }
    }
}

/// Reads `/etc/filesystems` of AIX, which consists of stanzas.
pub(in crate::collect) fn filesystems(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for stanza in crate::collect::stanza::read(text, &['*', '#'], origin, facts) {
        let of = |name: &str| {
            stanza.values.iter().find(|(key, _)| key == name).map(|(_, value)| text::unquoted(value)).unwrap_or_default()
        };
        let node = of("nodename");
        let source = if node.is_empty() { of("dev").to_owned() } else { format!("{node}:{}", of("dev")) };
        mounts.persistent(&stanza.name, &source, of("vfs"), split(of("options")), &format!("{origin}:{}", stanza.line));
    }
}

/// Reads the output of `nfsstat -m` of all systems: `POINT from SOURCE`, then `Flags: OPTIONS` and
/// `Attr cache: OPTIONS`.
pub(in crate::collect) fn nfsstat(text: &str, origin: &str, mounts: &mut Mounts) {
    let mut current: Option<(String, String)> = None;
    for (_, line) in telling(text, &[]) {
        if let Some((point, source)) = line.split_once(" from ") {
            // AIX prints `/export:host`, with the host after the last colon.
            let address = source
                .split_once("(Addr ")
                .and_then(|(_, rest)| rest.split_once(')'))
                .map(|(address, _)| format!("addr={}", address.trim()));
            let source = match source.trim().rsplit_once(':') {
                Some((path, host)) if path.starts_with('/') && !host.starts_with('/') => format!("{host}:{path}"),
                _ => source.trim().split_once(" (").map_or(source.trim(), |(source, _)| source).to_owned(),
            };
            current = Some((point.trim().to_owned(), source));
            if let (Some(address), Some((point, source))) = (address, &current) {
                mounts.running_by_nfsstat(point, source, [address], origin);
            }
        } else if let (Some((key, options)), Some((point, source))) = (line.split_once(':'), &current)
            && matches!(key.trim(), "Flags" | "Attr cache" | "Server args" | "Opts")
        {
            let options: Vec<String> =
                split(options).into_iter().flat_map(|option| words(&option).map(str::to_owned).collect::<Vec<_>>()).collect();
            mounts.running_by_nfsstat(point, source, options, origin);
        }
    }
}

/// Reads the output of `mount` and `mount -v` of Linux, Solaris and HP-UX: `X on Y …`.
pub(in crate::collect) fn mount_command(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in telling(text, &[]) {
        let Some((left, rest)) = line.split_once(" on ") else {
            odd(facts, origin, number, line);
            continue;
        };
        let (left, mut rest) = (left.trim(), rest.trim());
        if let Some((point, tail)) = rest.split_once(" type ") {
            let (fstype, options) = tail.split_once([' ', '\t']).unwrap_or((tail, ""));
            let options = options.split(" on ").next().unwrap_or_default().trim().trim_matches(['(', ')']);
            mounts.running(point.trim(), left, fstype, slashed(options), origin);
            continue;
        }
        // Lines without types: the mount point comes first, and the date after the last ` on `.
        rest = rest.rsplit_once(" on ").map_or(rest, |(rest, _)| rest);
        let (source, options) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let fstype = if server(source).is_some() { "nfs" } else { "" };
        mounts.running(left, source, fstype, slashed(options), origin);
    }
}

/// Options separated by commas, or by slashes as Solaris prints them.
fn slashed(options: &str) -> Vec<String> {
    let options = words(options).next().unwrap_or_default();
    let mark = if options.contains(',') { ',' } else { '/' };
    options
        .split(mark)
        .filter(|option| !option.is_empty())
        .map(|option| if option == "setuid" { "suid" } else { option }.to_owned())
        .collect()
}

/// Reads the output of `mount` of AIX, a table of node, device, point, type, date (three words) and
/// options.
pub(in crate::collect) fn mount_aix(text: &str, origin: &str, mounts: &mut Mounts, facts: &mut Facts) {
    for (number, line) in text::lines(text) {
        let all: Vec<&str> = words(line).collect();
        if all.is_empty() || all.first() == Some(&"node") || line.trim_start().starts_with("----") {
            continue;
        }
        let Some(time) = all.iter().position(|word| word.len() == 5 && word.as_bytes()[2] == b':').filter(|time| *time >= 5)
        else {
            odd(facts, origin, number, line);
            continue;
        };
        let (front, options) = (&all[..time - 2], all.get(time + 1).copied().unwrap_or_default());
        match front {
            [source, point, fstype] => mounts.running(point, source, fstype, split(options), origin),
            [node, source, point, fstype] => mounts.running(point, &format!("{node}:{source}"), fstype, split(options), origin),
            _ => odd(facts, origin, number, line),
        }
    }
}
