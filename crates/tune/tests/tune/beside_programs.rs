//! The facts of configuration files equal what their programs read: modprobe, multipath,
//! systemd-analyze and mount.nfs.
//!
//! Each seed is a tree of files. The programs read the tree in a mount namespace, in which it
//! covers the files of this host. The collector reads only the tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::Rng;
use tune::collect::capture;
use tune::facts::{Facts, Value};

/// Copies each tree over the host's files and runs the programs. The host's own file systems are
/// read-only in the namespace. So a copy to a wrong place, or through a link to a device, changes
/// nothing.
const SCRIPT: &str = r#"
    mount --bind "$1" "$1"; cd "$1"
    mkdir etc run lib; mount -t tmpfs etc etc; cp -a /etc/. etc/ 2>/dev/null || :; mount --bind etc /etc
    mount -t tmpfs mnt /mnt; mkdir -p /mnt/pg
    mount -t tmpfs run /run; mount -t tmpfs lib /usr/local/lib
    for name in modprobe.d sysctl.d; do mkdir -p lib/$name; mount --bind lib/$name /usr/lib/$name; done
    for own in / /dev; do ! mountpoint -q $own || mount -o remount,bind,ro $own || exit 1; done
    for tree in seed-*; do
        rm -rf /etc/modprobe.d /etc/sysctl.d /etc/multipath* /etc/nfsmount.conf*
        for name in modprobe.d sysctl.d; do rm -rf /run/$name /usr/local/lib/$name /usr/lib/$name/*; done
        cp -a --remove-destination $tree/etc/. /etc/; cp -a --remove-destination $tree/run/. /run/; cp -rP $tree/usr/. /usr/
        mount --bind $tree/proc/cmdline /proc/cmdline
        modprobe -c >$tree.modprobe
        multipath -t >$tree.multipath 2>/dev/null
        systemd-analyze cat-config sysctl.d >$tree.sysctl
        mount.nfs -f -v 127.0.0.1:/x /mnt/pg -o "$(cat $tree/options)" >$tree.mount 2>&1
        umount /proc/cmdline
    done
"#;

/// The folders of one kind. The first one takes precedence.
fn folders(kind: &str) -> Vec<String> {
    ["etc", "run", "usr/local/lib", "usr/lib"].iter().map(|base| format!("{base}/{kind}")).collect()
}

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, text).unwrap();
}

fn one<'a>(random: &mut Rng, items: &[&'a str]) -> &'a str {
    random.pick(items).copied().unwrap_or_default()
}

/// Files in several folders: some with the same name, some that no program reads, some that mask
/// others.
fn drop_ins(root: &Path, kind: &str, random: &mut Rng, mut line: impl FnMut(&mut Rng) -> String) {
    for folder in folders(kind) {
        std::fs::create_dir_all(root.join(&folder)).unwrap();
        for _ in 0..random.below(4) {
            let name = one(
                random,
                &["10-a.conf", "20-b.conf", "90-z.conf", "Z.conf", "a.conf.rpmsave", "b.conf~", ".hidden.conf", "README"],
            );
            let at = root.join(&folder).join(name);
            if random.chance(1, 8) {
                let _ = std::fs::remove_file(&at);
                std::os::unix::fs::symlink("/dev/null", at).unwrap();
                continue;
            }
            let text: String = (0..random.below(5)).map(|_| line(random)).collect();
            if !at.is_symlink() {
                std::fs::write(at, text).unwrap();
            }
        }
    }
}

fn modprobe_line(random: &mut Rng) -> String {
    let module = one(random, &["nfs", "scsi_mod", "scsi-mod", "sunrpc"]);
    let name = one(random, &["max_session_slots", "max_luns", "tcp_slot_table_entries"]);
    let value = random.below(100);
    match random.below(6) {
        0 => format!("# options {module} {name}={value} \\\n"),
        1 => format!("options {module} \\\n  {name}={value} \\\n\tother=1\n"),
        2 => format!("  options\t{module}   {name}={value}  more={value}\n"),
        3 => format!("alias x{value} {module}\n\nblacklist floppy\n"),
        _ => format!("options {module} {name}={value}\n"),
    }
}

fn sysctl_line(random: &mut Rng) -> String {
    let key = one(random, &["vm.swappiness", "vm/swappiness", "-vm.swappiness", "vm.dirty_ratio", "net.core.rmem_max"]);
    let value = random.below(100);
    match random.below(6) {
        0 => format!("# {key} = {value}\n"),
        1 => format!("; {key} = {value}\n"),
        2 => format!("  {key}={value}  \n"),
        _ => format!("{key} = {value}\n"),
    }
}

fn multipath_value(random: &mut Rng) -> String {
    match random.below(6) {
        0 => format!("no_path_retry {}", one(random, &["fail", "queue", "\"queue\"", "0", "12", "\"fail\" # \"queue\""])),
        1 => format!(
            "features {}",
            one(random, &["\"1 queue_if_no_path\"", "\"0\"", "\"3 queue_if_no_path pg_init_retries 50\" ! old"])
        ),
        2 => format!("failback {}", one(random, &["immediate", "manual", "15"])),
        3 => format!("path_grouping_policy {}", one(random, &["multibus", "failover", "\"group_by_prio\""])),
        4 => format!("rr_min_io {}", random.below(100) + 1),
        _ => format!("path_checker {}", one(random, &["tur", "directio", "\"readsector0\""])),
    }
}

fn multipath(random: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.below(4) {
        let open = one(random, &[" {", "{", "\n{"]);
        match random.below(3) {
            0 => writeln!(text, "defaults{open}\n polling_interval {}\n}}", random.below(20) + 1).unwrap(),
            1 => writeln!(text, "overrides{open}\n {}\n}}", multipath_value(random)).unwrap(),
            _ => {
                writeln!(text, "devices{open}").unwrap();
                for _ in 0..=random.below(2) {
                    let vendor = one(random, &["ACME", "\"EVIL CORP\""]);
                    writeln!(text, "\tdevice {{ # one\n\t\tvendor {vendor}\n\t\tproduct \"Disk\"").unwrap();
                    (0..random.below(4)).for_each(|_| writeln!(text, "\t\t{}", multipath_value(random)).unwrap());
                    writeln!(text, "\t}}").unwrap();
                }
                writeln!(text, "}}").unwrap();
            }
        }
    }
    text
}

fn nfsmount(random: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.below(4) {
        let head = one(
            random,
            &[
                "[ NFSMount_Global_Options ]",
                "[NFSMOUNT_global_options]",
                "[ Server \"127.0.0.1\" ]",
                "[ Server \"other\" ]",
                "[ MountPoint \"/mnt/pg\" ]",
                "[ MountPoint \"/mnt/PG\" ] # it",
                "[ MountPoint /mnt/pg ]",
            ],
        );
        writeln!(text, "{head}").unwrap();
        for _ in 0..random.below(3) {
            let line = one(
                random,
                &[
                    "Soft=True",
                    "Hard=True",
                    "hard=False",
                    "ac=False",
                    "noac=True",
                    "Lock = false",
                    "retrans=7",
                    "timeo=50",
                    "Timeo = 70",
                    "rsize=32k",
                    "# soft=True",
                ],
            );
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

fn tree(root: &Path, random: &mut Rng) {
    drop_ins(root, "modprobe.d", random, modprobe_line);
    drop_ins(root, "sysctl.d", random, sysctl_line);
    let slots = if random.chance(1, 2) {
        format!(" nfs.max_session_slots={} scsi-mod.max_luns={}", random.below(100), random.below(100))
    } else {
        String::new()
    };
    put(root, "proc/cmdline", &format!("ro quiet{slots} rd.x.y=1\n"));
    put(root, "etc/multipath.conf", &multipath(random));
    for name in ["a.conf", "z.conf", "b.conf.bak"] {
        if random.chance(1, 3) {
            put(root, &format!("etc/multipath/conf.d/{name}"), &multipath(random));
        }
    }
    put(root, "etc/nfsmount.conf", &nfsmount(random));
    for name in ["a.conf", "z.conf", "b.conf.bak"] {
        if random.chance(1, 3) {
            put(root, &format!("etc/nfsmount.conf.d/{name}"), &nfsmount(random));
        }
    }
    let own = ["soft", "hard", "noac", "ac", "timeo=30", "timeo=40", "retrans=3", "nolock", "rw"];
    let own: Vec<&str> = (0..random.below(5)).map(|_| one(random, &own)).chain(["vers=4.2"]).collect();
    put(root, "options", &own.join(","));
    put(root, "etc/fstab", &format!("127.0.0.1:/x /mnt/pg nfs {} 0 0\n", own.join(",")));
    put(root, "etc/os-release", "ID=debian\n");
}

fn plain(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Bool(yes) => i64::from(*yes).to_string(),
        Value::Text(text) => text.clone(),
        Value::List(_) => String::new(),
    }
}

fn below(facts: &Facts, prefix: &str) -> BTreeMap<String, String> {
    let all = facts.host.iter().filter_map(|(name, fact)| Some((name.strip_prefix(prefix)?.to_owned(), plain(&fact.value))));
    all.collect()
}

fn check_modules(answer: &str, facts: &Facts) {
    let options = |line: &str| -> Vec<(String, String)> {
        let Some(rest) = line.strip_prefix("options ") else { return Vec::new() };
        let mut words = rest.split_whitespace();
        let module = words.next().unwrap_or_default().to_owned();
        words.filter_map(|word| word.split_once('=')).map(|(key, value)| (format!("{module}.{key}"), value.to_owned())).collect()
    };
    let wanted: BTreeMap<String, String> = answer.lines().flat_map(options).filter(|(key, _)| !key.starts_with("rd.")).collect();
    assert_eq!(below(facts, "persistent.module."), wanted);
}

fn check_sysctls(answer: &str, facts: &Facts) {
    let set = |line: &str| -> Option<(String, String)> {
        let (key, value) = line.trim().split_once('=').filter(|_| !line.trim().starts_with(['#', ';']))?;
        Some((key.trim().trim_start_matches('-').trim().replace('/', "."), value.trim().to_owned()))
    };
    assert_eq!(below(facts, "persistent.sysctl."), answer.lines().filter_map(set).collect::<BTreeMap<String, String>>());
}

/// The values of the devices in a dump, by vendor.
fn dumped(answer: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut at = String::new();
    for line in answer.lines() {
        let (key, value) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let value = value.trim_matches('"').to_owned();
        match key {
            "overrides" | "defaults" | "blacklist" | "multipaths" => key.clone_into(&mut at),
            "vendor" => at = value,
            _ => drop(all.entry(at.clone()).or_default().insert(key.to_owned(), value)),
        }
    }
    all
}

fn check_multipath(answer: &str, facts: &Facts) {
    let all = dumped(answer);
    let empty = BTreeMap::new();
    let overrides = all.get("overrides").unwrap_or(&empty);
    for (name, device) in facts.things.get("multipath_device").into_iter().flatten() {
        let vendor = name.strip_suffix(" Disk").unwrap();
        for (key, fact) in device.iter().filter(|(key, _)| !matches!(key.as_str(), "vendor" | "product")) {
            let wanted = overrides.get(key).or_else(|| all[vendor].get(key)).map(String::as_str);
            // multipath prints no features if none remain.
            let wanted = wanted.or((key == "features").then_some("0")).unwrap_or_else(|| panic!("{name} has no {key}: {answer}"));
            let has_retry = overrides.contains_key("no_path_retry") || all[vendor].contains_key("no_path_retry");
            let wanted = match (key.as_str(), wanted) {
                ("features", "1 queue_if_no_path") if has_retry => "0",
                ("features", "3 queue_if_no_path pg_init_retries 50") if has_retry => "2 pg_init_retries 50",
                (_, wanted) => wanted,
            };
            let found = plain(&fact.value);
            // When multipath merges two sections, it turns this feature into no_path_retry.
            let is_queue = key == "features" && !device.contains_key("no_path_retry");
            let is_queue = is_queue && all[vendor].get("no_path_retry").is_some_and(|retry| retry == "queue");
            if is_queue && found.contains("queue_if_no_path") {
                continue;
            }
            let found = if key == "no_path_retry" && found == "0" { "fail".to_owned() } else { found };
            assert_eq!(found, wanted, "{name}: {key}");
        }
    }
    if let Some(value) = facts.value("multipath.defaults.polling_interval") {
        assert_eq!(plain(value), all["defaults"]["polling_interval"]);
    }
}

fn check_mount(answer: &str, facts: &Facts) {
    let Some((_, options)) = answer.split_once("options '") else { panic!("mount.nfs says {answer}") };
    let options: Vec<&str> = options.split('\'').next().unwrap_or_default().split(',').collect();
    let last =
        |names: &[&str]| options.iter().rev().find(|option| names.contains(&option.split('=').next().unwrap_or(option))).copied();
    let of = |name: &str| facts.value_of("mount", "/mnt/pg", name).cloned();
    assert_eq!(of("hard"), Some((!matches!(last(&["soft", "hard", "nohard"]), Some("soft" | "nohard"))).into()), "{options:?}");
    assert_eq!(of("noac"), Some((last(&["ac", "noac"]) == Some("noac")).into()), "{options:?}");
    assert_eq!(of("nolock"), Some((last(&["lock", "nolock"]) == Some("nolock")).into()), "{options:?}");
    for name in ["timeo", "retrans", "rsize"] {
        let wanted = last(&[name]).and_then(|option| option.split_once('=')?.1.parse::<i64>().ok());
        assert_eq!(of(name), wanted.map(Value::Int), "{name} of {options:?}");
    }
}

fn compare(count: u64) {
    let needed = ["unshare", "modprobe", "multipath", "systemd-analyze", "mount.nfs"];
    let is_there = |program: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|folder: PathBuf| folder.join(program).is_file())
    };
    if let Some(missing) = needed.iter().find(|program| !is_there(program)) {
        return sim::skip(&format!("{missing} is not installed"));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut seeds = Vec::new();
    sim::sweep(count, |seed, mut random| {
        tree(&dir.path().join(format!("seed-{seed}")), &mut random);
        seeds.push(seed);
    });
    let ran = Command::new("unshare").args(["--mount", "sh", "-uc", SCRIPT, "sh"]).arg(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if said.contains("Operation not permitted") || said.contains("unshare failed") {
        return sim::skip_unsupported("this user may not make a mount namespace");
    }
    for seed in seeds {
        let tree = dir.path().join(format!("seed-{seed}"));
        let answer = |kind: &str| {
            let path = dir.path().join(format!("seed-{seed}.{kind}"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; {said}", path.display()))
        };
        let files =
            Command::new("grep").args(["-rn", "", "etc", "run", "usr", "proc", "options"]).current_dir(&tree).output().unwrap();
        eprintln!("seed {seed}:\n{}", String::from_utf8_lossy(&files.stdout));
        let (facts, _) = capture(&tree).unwrap();
        check_modules(&answer("modprobe"), &facts);
        check_sysctls(&answer("sysctl"), &facts);
        check_multipath(&answer("multipath"), &facts);
        check_mount(&answer("mount"), &facts);
    }
}

#[test]
fn facts_of_files_are_what_the_programs_read() {
    compare(50);
}

#[test]
#[ignore = "nightly: a thousand seeds"]
fn facts_of_files_are_what_the_programs_read_for_a_thousand_seeds() {
    compare(1000);
}
