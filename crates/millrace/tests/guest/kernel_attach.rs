//! `millrace iscsi attach` where the kernel has an initiator: which client it chooses, what it
//! creates, and that detach removes all of it.

use crate::booted::{can_boot, facts_in};
use crate::support::Scratch;
use crate::support::target::Target;

#[test]
#[ignore = "nightly: a guest that attaches by both clients, of minutes"]
fn attach_takes_open_iscsi_with_multipath_where_it_may_and_leaves_nothing_of_it_and_all_of_others() {
    if !can_boot(&["iscsid", "multipathd", "mkfs.ext4", "losetup", "pkill"]) {
        return;
    }
    let scratch = Scratch::new("guest-attach");
    let target = Target::with_portals(&scratch, 2, &[]);
    assert_eq!((target.create("first", "64MiB", &["--write-cache"]), target.create("second", "32MiB", &[])), (0, 1));
    let ports = [0, 1].map(|nth| target.portal(nth).port().to_string());
    let [one, two] = ports;
    let arguments = [env!("CARGO_BIN_EXE_millrace").to_owned(), target.iqn(), one, two];
    let facts = facts_in(&["--timeout", "15m", "--nics", "2"], "kernel_attach.sh", &arguments, |wish| unreachable!("{wish}"));
    assert_eq!((&*facts["client"], &*facts["kind"], &*facts["paths"]), ("open-iscsi", "dm-multipath", "2"));
    assert_eq!(facts["reason"], "this host has iscsi_tcp, iscsid and multipathd");
    assert_eq!((facts["depth"].trim_end(), &*facts["listed"]), ("128", "1"));
    assert_eq!((&*facts["second"], &*facts["after_second"]), ("2 4 2", "2 2 1"), "sessions, disks, maps");
    assert_eq!((&*facts["busy"], &*facts["used"]), ("1", "1"));
    assert_eq!((&*facts["again"], &*facts["single"]), ("open-iscsi same", "open-iscsi same"));
    assert_eq!(facts["own"], "millrace fuse-loop 0 same");
    let reasons = [
        ("record", "open-iscsi already has a record of "),
        ("session", "this host already has session "),
        ("without", "iscsid does not run"),
    ];
    for (name, reason) in reasons {
        assert!(facts[name].starts_with(&format!("millrace {reason}")), "{name}: {}", facts[name]);
    }
    let insisted = &facts["insisted"];
    let hint = "hint: if no program uses its disks, end it: iscsiadm -m session -r ";
    assert!(insisted.contains("this host already has session ") && insisted.contains(hint), "{insisted}");
    assert_eq!((&*facts["theirs"], &*facts["left"]), ("1 1", "none"));
}
