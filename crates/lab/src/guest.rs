//! A guest with a stock distribution kernel in QEMU, for kernel storage clients on hosts whose own kernel has none.
//!
//! The guest's root is this host's, read-only over 9p under a tmpfs overlay: every program of the host is there, and nothing that
//! the guest writes reaches the host, save in the shared directories. Its network is QEMU's user-mode network, which needs no
//! rights: the host's loopback is 10.0.2.2, and 10.0.3.2, 10.0.4.2, … through further network interfaces.
//!
//! Interface: [`status::examine`] says what is there, [`fetch::fetch`] brings the kernel, [`run::run`] boots it and runs a command.
//! docs/guest.md says what may be concluded from what is measured inside, docs/design/023-guest.md why it is built so.

pub mod cache;
pub mod compare;
pub mod fetch;
pub mod run;
pub mod status;

mod cpio;
mod initramfs;
mod kvm;
mod machine;
mod marker;
mod modules;
mod ports;
mod programs;
mod unpacking;
mod vmlinux;
mod work;

use run::{EMULATED, VIRTUAL};

/// Variable that a guest's first process sets for its command: who runs the guest.
const VARIABLE: &str = "MILLRACE_GUEST";

/// How figures measured by this process are to be read where it runs in a guest; none elsewhere.
#[must_use]
pub fn label() -> Option<&'static str> {
    label_of(&std::env::var(VARIABLE).ok()?)
}

fn label_of(accelerator: &str) -> Option<&'static str> {
    match accelerator {
        "" => None,
        name if name == run::Accelerator::Kvm.name() => Some(VIRTUAL),
        _ => Some(EMULATED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_labelled_by_who_runs_it() {
        assert_eq!(["", "kvm", "tcg"].map(label_of), [None, Some(VIRTUAL), Some(EMULATED)]);
    }
}
