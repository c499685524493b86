//! Settings of Linux: kernel, modules, mounts, limits, devices, iSCSI, multipath.

use super::drop_in::{self, Folders};
use super::{DROP_IN, Part, Resolved, assigned};
use crate::change::edit::{Edit, Style, options_of, sysctl_path};
use crate::change::root::Root;
use crate::collect::other_of_pair;
use crate::facts::{Facts, Value};
use crate::rule::SettingKind;

/// Folders of sysctl(8) and systemd-sysctl(8).
const SYSCTL: Folders<'_> = Folders {
    own: "/etc/sysctl.d",
    others: &["/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"],
    suffix: "conf",
    last: Some("/etc/sysctl.conf"),
};
/// Folders of kmod (modprobe.d(5)).
const MODPROBE: Folders<'_> = Folders {
    own: "/etc/modprobe.d",
    others: &["/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"],
    suffix: "conf",
    last: None,
};

/// The parts of a change; `None` for a kind of setting that Linux does not have.
pub(super) fn parts(setting: &Resolved<'_>, facts: &Facts, root: &Root, remarks: &mut Vec<String>) -> Option<Vec<Part>> {
    Some(match setting.change.target.kind {
        SettingKind::Sysctl => sysctl(setting, root, remarks),
        SettingKind::Modprobe => modprobe(setting, root, remarks),
        SettingKind::FstabOption => fstab(setting, root),
        SettingKind::Limits => limits(setting, root, remarks),
        SettingKind::Udev => udev(setting, root),
        SettingKind::Iscsid => {
            remarks.push(
                "sessions that are logged in keep their values until they log out; records of known targets \
                 (/var/lib/iscsi/nodes) keep theirs until `iscsiadm -m node -o update` changes them"
                    .to_owned(),
            );
            existing(setting, root, "/etc/iscsi/iscsid.conf", assigned(setting, Style::Iscsid, setting.key()))
        }
        SettingKind::Multipath => multipath(setting, facts, root),
        SettingKind::Oracleasm => {
            existing(setting, root, "/etc/sysconfig/oracleasm", assigned(setting, Style::Shell, setting.key()))
        }
        _ => return None,
    })
}

fn sysctl(setting: &Resolved<'_>, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    let name = sysctl_path(setting.key());
    let fits = |part: &str| !part.is_empty() && part != ".." && part != ".";
    if !name.split('/').all(fits) {
        return vec![Part::ByHand { text: format!("{}: {} is no name of a kernel setting", setting.rule, setting.key()) }];
    }
    let path = format!("/proc/sys/{name}");
    let mut parts = Vec::new();
    if root.has_file(&path) {
        let moves = name.strip_prefix("vm/").and_then(other_of_pair).map(|other| format!("/proc/sys/vm/{other}"));
        let moves = moves.into_iter().collect();
        parts.push(Part::Running { path, value: setting.value().to_owned(), moves });
    } else {
        remarks.push(format!("{path} is not there now (its module may not be loaded): only the file is written"));
    }
    let file = drop_in::part(setting, root, &SYSCTL, Style::Sysctl, remarks);
    parts.push(file);
    parts
}

fn modprobe(setting: &Resolved<'_>, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    let Some((module, parameter)) = setting.key().split_once('.') else {
        return vec![Part::ByHand { text: format!("{}: {} names no parameter of a module", setting.rule, setting.key()) }];
    };
    let mut parts = Vec::new();
    let running = format!("/sys/module/{}/parameters/{parameter}", module.replace('-', "_"));
    if fits_path(&running) && writable(root, &running) {
        parts.push(Part::Running { path: running, value: setting.value().to_owned(), moves: Vec::new() });
    }
    parts.push(drop_in::part(setting, root, &MODPROBE, Style::Modprobe, remarks));
    let at_boot = root.read_text("/proc/cmdline").ok().flatten().unwrap_or_default();
    if at_boot.split_whitespace().any(|word| Style::Modprobe.is_same(word.split('=').next().unwrap_or_default(), setting.key())) {
        remarks
            .push("the kernel's command line (/proc/cmdline) sets it too, and takes precedence: change it there too".to_owned());
    }
    parts
}

fn fits_path(path: &str) -> bool {
    path.split('/').all(|part| part != "..")
}

/// Whether the file exists and its owner may write it. Many module parameters are read-only.
fn writable(root: &Root, path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(real) = root.resolve(path) else { return false };
    std::fs::metadata(root.host(&real)).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o200 != 0)
}

fn fstab(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let Some((_, point)) = setting.thing() else {
        return vec![Part::ByHand { text: format!("{}: which mount is not said", setting.rule) }];
    };
    let value = Some(setting.value().to_owned()).filter(|value| !value.is_empty());
    let edit = Edit::MountOption { point: point.to_owned(), option: setting.key().to_owned(), value };
    let parts = existing(setting, root, "/etc/fstab", edit);
    let text = root.read_text("/etc/fstab").ok().flatten().unwrap_or_default();
    if options_of(&text, point).is_some() {
        return parts;
    }
    let how = mount_words(setting);
    vec![Part::ByHand {
        text: format!(
            "mount {point} {how}; it has no line in /etc/fstab, so set it where it is mounted from (automounter, systemd unit)"
        ),
    }]
}

fn mount_words(setting: &Resolved<'_>) -> String {
    match setting.value() {
        "-" => format!("without the option {}", setting.key()),
        "" | "true" => format!("with the option {}", setting.key()),
        value => format!("with {}={value}", setting.key()),
    }
}

/// An edit of a file, if it exists and allows the edit; otherwise a step by hand.
pub(super) fn existing(setting: &Resolved<'_>, root: &Root, path: &str, edit: Edit) -> Vec<Part> {
    let refused = match root.read_text(path) {
        Ok(Some(text)) => edit.made(Some(&text)).err(),
        Ok(None) => Some("the file is not there".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    match refused {
        None => vec![Part::File { path: path.to_owned(), edit }],
        Some(reason) => {
            let value = if setting.value() == "-" { "nothing".to_owned() } else { setting.value().to_owned() };
            vec![Part::ByHand { text: format!("{path}: set {} to {value} ({reason})", setting.key()) }]
        }
    }
}

fn limits(setting: &Resolved<'_>, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    if setting.key().split_whitespace().count() != 3 {
        return vec![Part::ByHand { text: format!("{}: {} is not USER TYPE ITEM", setting.rule, setting.key()) }];
    }
    remarks.push("a login, or a start of the service, takes it".to_owned());
    let folders = Folders { own: "/etc/security/limits.d", others: &[], suffix: "conf", last: None };
    vec![drop_in::part(setting, root, &folders, Style::Limits, remarks)]
}

fn udev(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let Some((subsystem, attribute)) = setting.key().split_once('/') else {
        return vec![Part::ByHand { text: format!("{}: {} is not SUBSYSTEM/ATTRIBUTE", setting.rule, setting.key()) }];
    };
    let device = setting.thing().map(|(_, name)| name);
    let quoted = |text: &str| text.contains(['"', '\\', '{', '}']);
    if quoted(setting.value()) || quoted(attribute) || quoted(subsystem) || device.is_some_and(quoted) {
        return vec![Part::ByHand { text: format!("{}: a quotation mark has no place in a udev rule", setting.rule) }];
    }
    let mut parts = Vec::new();
    let mut key = format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", ");
    if let Some(device) = device {
        let running = match subsystem {
            "block" => format!("/sys/block/{device}/{attribute}"),
            other => format!("/sys/class/{other}/{device}/{attribute}"),
        };
        if fits_path(&running) && writable(root, &running) {
            parts.push(Part::Running { path: running, value: setting.value().to_owned(), moves: Vec::new() });
        }
        key.push_str(&format!("KERNEL==\"{device}\", "));
    }
    key.push_str(&format!("ATTR{{{attribute}}}"));
    parts.push(Part::File { path: format!("/etc/udev/rules.d/{DROP_IN}.rules"), edit: assigned(setting, Style::Udev, &key) });
    parts
}

fn multipath(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> Vec<Part> {
    let (section, key) = setting.key().rsplit_once('.').unwrap_or(("defaults", setting.key()));
    let section = section.rsplit('.').next().unwrap_or(section).to_owned();
    let attribute = |name: &str| {
        let (kind, thing) = setting.thing()?;
        match facts.value_of(kind, thing, name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    };
    // Only blocks for this device are changed; a block for another device belongs to another make.
    let device = if section == "device" { attribute("vendor").zip(attribute("product")) } else { None };
    let edit = Edit::MultipathOverride { section, device, key: key.to_owned(), value: setting.value().to_owned() };
    existing(setting, root, "/etc/multipath.conf", edit)
}
