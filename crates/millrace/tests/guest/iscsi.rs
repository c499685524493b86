//! The kernel's iSCSI initiator (open-iscsi) with dm-multipath, on a LUN of this host's filer over two portals.

use crate::booted::{can_boot, facts_of};
use crate::support::Scratch;
use crate::support::target::Target;

#[test]
fn open_iscsi_with_multipath_keeps_every_verified_block_over_a_cut_path_and_a_killed_filer() {
    if !can_boot(&["iscsid", "multipathd", "mkfs.ext4", "fio"]) {
        return;
    }
    let scratch = Scratch::new("guest-iscsi");
    let mut target = Target::with_portals(&scratch, 2, &[]);
    target.create("disk", "64MiB", &[]);
    let arguments = [target.iqn(), target.portal(0).port().to_string(), target.portal(1).port().to_string()];
    let facts = facts_of("iscsi.sh", 2, &arguments, |wish| {
        assert_eq!(wish, "restart the filer");
        target.kill();
        target.restart();
    });
    assert_eq!((&*facts["paths"], &*facts["sessions"]), ("2", "none"));
    assert_eq!((&*facts["cut"], &*facts["restart"], &*facts["again"]), ("verified", "verified", "verified"));
}
