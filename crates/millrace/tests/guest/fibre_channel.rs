//! Fibre Channel: the kernel's FC initiator and target with software FCoE, both in the guest, over two pairs of ports.

use crate::booted::{can_boot, facts_of};

#[test]
#[ignore = "nightly: two minutes of the kernel's own target and initiator; make guest-test runs it too"]
fn a_fibre_channel_disk_comes_up_over_two_pairs_and_keeps_every_verified_block_over_cuts_and_a_restart_of_the_target() {
    if !can_boot(&["fio", "multipathd"]) {
        return;
    }
    let facts = facts_of("fibre_channel.sh", 0, &[], |wish| panic!("nothing to do on the host: {wish}"));
    assert_eq!((&*facts["disk"], facts["transport"].trim_end()), ("131072", "Online"), "64 MiB behind ports that are up");
    for what in ["cut", "both", "restart"] {
        assert_eq!(&*facts[what], "verified", "{what}");
    }
}
