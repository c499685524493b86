//! A guest in QEMU with a distribution's standard kernel, for kernel storage clients that the host's own kernel lacks.
//!
//! The guest's root is this host's, read-only over 9p under a tmpfs overlay: it has every program of the host, and no file that
//! the guest writes reaches the host, except in the shared directories. Its network is QEMU's user-mode network, which needs no
//! privileges: the host's loopback is 10.0.2.2, and 10.0.3.2, 10.0.4.2, … through further network interfaces.
//!
//! Interface: [`status::examine`] checks the requirements, [`fetch::fetch`] gets the kernel, [`run::run`] boots it and runs a command.
//! docs/guest.md describes what measurements inside a guest show, docs/design/023-guest.md the design.

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

/// Variable that a guest's first process sets for its command: the accelerator.
const VARIABLE: &str = "MILLRACE_GUEST";

/// How to read figures that this process measures if it runs in a guest; `None` otherwise.
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
