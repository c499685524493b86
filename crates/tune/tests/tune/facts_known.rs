//! Every fact that a rule uses can be obtained from a parser or from the site file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tune::expression::parse;
use tune::rules::RuleSet;

/// Prefixes of names that parsers take from their input: the rest is the setting's own name.
const FAMILIES: &[&str] = &[
    "sysctl.",
    "persistent.",
    "module.",
    "module_version.",
    "kernel.cmdline.",
    "meminfo.",
    "iscsid.",
    "multipath.defaults.",
    "multipath.overrides.",
    "multipath.device.",
    "oracleasm.",
    "package.",
    "service.",
    "limit.",
    "ulimit.oracle.",
    "pam.",
    "solaris.system.",
    "solaris.ndd.",
    "solaris.driver.",
    "solaris.project.",
    "aix.no.",
    "aix.nfso.",
    "aix.vmo.",
    "aix.ioo.",
    "aix.schedo.",
    "aix.sys0.",
    "aix.aio0.",
    "aix.fileset.",
    "aix.apar.",
    "hpux.kctune.",
    "hpux.ndd.",
    "hpux.bundle.",
    "hpux.product.",
    "hpux.nfsconf.",
    "oracle.",
    "postgres.",
    "mysql.",
    "ontap7.option.",
    "ontap9.nfs.",
    "site.",
];

/// Names that parsers note exactly so.
const NAMES: &[&str] = &[
    "os.family",
    "os.release",
    "os.distribution",
    "os.distribution_version",
    "os.word_bits",
    "hw.memory_bytes",
    "nfs.client_transfer_max",
    "hw.cpu_count",
    "hw.huge_page_bytes",
    "database.writes_started_early",
    "user.root",
    "role",
    "thp.enabled",
    "thp.defrag",
    "tuned.profile",
    "initscript.netfs.sysctl_first",
    "solaris.update",
    "aix.technology_level",
    "aix.service_pack",
    "hpux.patch",
    "ontap7.version",
    "ontap7.fcp.cfmode",
    "ontap9.version",
];

/// Kinds of things with their attributes. An empty list means that the attributes are those that
/// the system names.
const THINGS: &[(&str, &[&str])] = &[
    (
        "mount",
        &[
            "fstype",
            "source",
            "server",
            "server_address",
            "same_export_count",
            "mounted",
            "options",
            "fstab_options",
            "fstab_source",
            "mounted_by",
            "bg",
            "rsize",
            "wsize",
            "timeo",
            "retrans",
            "nconnect",
            "max_connect",
            "actimeo",
            "acregmin",
            "acregmax",
            "acdirmin",
            "acdirmax",
            "biods",
            "noac",
            "nolock",
            "nosharecache",
            "sync",
            "llock",
            "forcedirectio",
            "cio",
            "dio",
            "suid",
            "local_lock",
            "sec",
            "mincache",
            "convosync",
            "hard",
            "intr",
            "vers",
            "proto",
            "transports",
            "slots_used_max",
            "oranfstab",
            "role",
            "holds",
            "databases",
            "volume",
            "disk_vendor",
            // From the site file.
            "block_size",
        ],
    ),
    (
        "direct_nfs_mount",
        &[
            "path",
            "uid",
            "server",
            "server_address",
            "loopback",
            "export",
            "role",
            "state",
            "process_count",
            "keeper",
            "export_gone",
            "waiting_s",
            "retained_bytes",
            "retained_bytes_max",
            "shm_bytes",
            "shm_bytes_free",
            "close",
            "gather",
            "retain_bytes",
            "gone",
            "stable",
            "xprtsec",
            "fence_ms",
            "hard",
            "noac",
            "owner",
            "slots",
            "split_bytes",
            "writers",
        ],
    ),
    (
        "nic",
        &[
            "mtu",
            "nfs_mounts",
            "persistent_mtu",
            "speed_mbit",
            "driver",
            "driver_version",
            "firmware_version",
            "rx_pause",
            "tx_pause",
            "autoneg",
            "tso",
            "gro",
            "lro",
            "rx_ring",
            "rx_ring_max",
            "tx_ring",
            "tx_ring_max",
            "rx_checksum",
            "tx_checksum",
            "duplex",
            "up",
            "addresses",
            "storage",
        ],
    ),
    (
        "block",
        &[
            "scheduler",
            "nr_requests",
            "read_ahead_kb",
            "max_sectors_kb",
            "max_hw_sectors_kb",
            "rotational",
            "rq_affinity",
            "nomerges",
            "queue_depth",
            "timeout",
            "vendor",
            "model",
            "alignment_offset",
        ],
    ),
    ("partition", &["disk", "start_sector", "alignment_offset"]),
    (
        "iscsi_session",
        &[
            "target",
            "portal",
            "cmds_max",
            "queue_depth",
            "replacement_timeout",
            "disks",
            "first_burst_length",
            "max_burst_length",
        ],
    ),
    ("fc_host", &["driver", "queue_depth", "speed_gbit", "port_state", "symbolic_name", "dev_loss_tmo"]),
    ("multipath_map", &["vendor", "product", "features", "hwhandler", "alua", "path_selector", "path_count", "size", "dm"]),
    ("multipath_device", &[]),
    ("nvme_subsystem", &["iopolicy", "model"]),
    ("oranfstab_path", &["server", "local", "path", "mount", "export", "nfs_version", "shares_link"]),
    ("oranfstab_mount", &["server", "export", "path_count"]),
    ("db_role_setting", &["setting", "value"]),
    ("setting", &["running", "persistent", "file", "files", "values"]),
    ("hdisk", &[]),
    ("fcs", &[]),
    ("fscsi", &[]),
    ("ent", &[]),
    ("en", &[]),
    ("iscsi", &[]),
    (
        "lan",
        &[
            "driver",
            "mtu",
            "persistent_mtu",
            "vmtu",
            "send_cko",
            "recv_cko",
            "tx_checksum_offload",
            "rx_checksum_offload",
            "speed_mbit",
            "address",
            "storage",
        ],
    ),
    ("vg", &[]),
    ("lv", &[]),
    ("lun", &["size", "ostype", "igroup", "space_reservation", "alignment"]),
    ("igroup", &["ostype", "protocol", "initiators"]),
    ("ontap_volume", &[]),
    ("ontap_aggregate", &["state", "raid_type", "raid_size", "disk_count"]),
    (
        "ontap_if",
        &[
            "mtu",
            "persistent_mtu",
            "flowcontrol",
            "persistent_flowcontrol",
            "address",
            "netmask",
            "host_name",
            "iscsi",
            "storage",
        ],
    ),
    ("ontap_port", &["mtu", "flowcontrol", "speed_oper", "node"]),
];

fn rules() -> RuleSet {
    RuleSet::folder(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn no_rule_asks_the_host_for_what_nobody_collects() {
    let mut missing = BTreeSet::new();
    for loaded in rules().rules() {
        let rule = &loaded.rule;
        let values = rule.fix.iter().flat_map(|fix| &fix.settings).filter_map(|setting| setting.value_of.as_ref());
        for text in rule.when.iter().chain([&rule.test]).chain(values) {
            let expression = parse(text).unwrap_or_else(|error| panic!("{}: {error}", rule.id));
            for name in expression.host_names(rule.each.as_deref()) {
                if !NAMES.contains(&name) && !FAMILIES.iter().any(|family| name.starts_with(family)) {
                    missing.insert(format!("{name} ({})", rule.id));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no parser gives {missing:#?}");
}

#[test]
fn no_rule_asks_things_for_what_nobody_collects() {
    let mut missing = BTreeSet::new();
    for loaded in rules().rules() {
        let rule = &loaded.rule;
        for (kind, things) in rule.fires.iter().chain(&rule.silent).flat_map(|case| &case.things) {
            let Some((_, attributes)) = THINGS.iter().find(|(known, _)| known == kind) else {
                missing.insert(format!("{kind} ({})", rule.id));
                continue;
            };
            for name in things.iter().flat_map(std::collections::BTreeMap::keys).filter(|name| *name != "name") {
                if !attributes.is_empty() && !attributes.contains(&name.as_str()) {
                    missing.insert(format!("{kind}.{name} ({})", rule.id));
                }
            }
        }
    }
    assert!(missing.is_empty(), "no parser gives {missing:#?}");
}
