//! The machine of a guest: QEMU's arguments.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The way in which the guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// By this host's processor.
    Kvm,
    /// By QEMU, which translates them.
    Tcg,
}

impl Accelerator {
    /// Its name in QEMU.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// The processor that the guest sees. A kernel that sees ERMS copies with `rep movsb`, which TCG executes byte by byte: 8 KiB then
    /// took 16.8 us instead of 3.9.
    fn processor(self) -> &'static str {
        match self {
            Self::Kvm => "host",
            Self::Tcg => "max,-erms,-fsrm",
        }
    }

    /// Kernel arguments for that purpose: 297 and 580 are ERMS and FSRM, which a kernel also detects itself. The kernel's self-tests of
    /// cryptography take a tenth of an emulated boot.
    fn kernel_arguments(self) -> &'static str {
        match self {
            Self::Kvm => "",
            Self::Tcg => " mitigations=off nokaslr tsc=reliable cryptomgr.notests clearcpuid=297,580",
        }
    }
}

/// A machine.
pub(crate) struct Machine<'a> {
    pub(crate) qemu: &'a Path,
    pub(crate) accelerator: Accelerator,
    pub(crate) cpus: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) nics: u32,
    pub(crate) shares: &'a [PathBuf],
    /// Files that are its disks, in the order of their names there: vda, vdb, …
    pub(crate) disks: &'a [PathBuf],
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    /// File for the kernel's console output.
    pub(crate) console: &'a Path,
    /// Sockets of the ports, in the order of their numbers from 1.
    pub(crate) ports: &'a [PathBuf],
    /// Further arguments of the kernel.
    pub(crate) kernel_arguments: &'a [String],
}

impl Machine<'_> {
    /// The command that runs it. It needs no special privileges: the network is inside QEMU.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.qemu);
        command.args(["-accel", if self.accelerator == Accelerator::Tcg { "tcg,thread=multi" } else { "kvm" }]);
        command.args(["-cpu", self.accelerator.processor(), "-M", "q35", "-smp", &self.cpus.to_string()]);
        command.args(["-m", &format!("{}k", self.memory_bytes / 1024)]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial"]).arg(valued("file:", self.console));
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initramfs);
        command.args(["-append", &self.kernel_line(), "-device", "virtio-rng-pci"]);
        for number in 0..self.nics {
            let network = 2 + number;
            command.args(["-netdev", &format!("user,id=n{number},net=10.0.{network}.0/24,dhcpstart=10.0.{network}.15")]);
            // Without a boot ROM, because no guest boots from the network.
            command.args(["-device", &format!("virtio-net-pci,netdev=n{number},romfile=")]);
        }
        if !self.ports.is_empty() {
            // 9p and ports are used together: a test of KVM has neither.
            command.args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"]);
            command.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-serial-pci"]);
        }
        for (number, path) in self.shares.iter().enumerate() {
            let head = format!("local,id=share{number},security_model=none,multidevs=remap,path=");
            command.arg("-fsdev").arg(valued(&head, path));
            command.args(["-device", &format!("virtio-9p-pci,fsdev=share{number},mount_tag=share{number}")]);
        }
        for (number, path) in self.disks.iter().enumerate() {
            let head = format!("if=none,format=raw,discard=unmap,id=disk{number},file=");
            command.arg("-drive").arg(valued(&head, path));
            command.args(["-device", &format!("virtio-blk-pci,drive=disk{number}")]);
        }
        for (number, path) in (1..).zip(self.ports) {
            command.arg("-chardev").arg(valued(&format!("socket,id=port{number},path="), path));
            command.args(["-device", &format!("virtserialport,chardev=port{number},nr={number}")]);
        }
        command
    }

    fn kernel_line(&self) -> String {
        let mut line = format!("console=ttyS0 quiet panic=-1 random.trust_cpu=on{}", self.accelerator.kernel_arguments());
        for argument in self.kernel_arguments {
            let _ = write!(line, " {argument}");
        }
        line
    }
}

/// An option with a path, whose commas are doubled as QEMU requires.
fn valued(head: &str, path: &Path) -> OsString {
    let mut text = head.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        text.push(*byte);
        if *byte == b',' {
            text.push(b',');
        }
    }
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_ends_no_option() {
        assert_eq!(valued("file:", Path::new("/a,b")), OsString::from("file:/a,,b"));
    }

    #[test]
    fn fast_string_copies_are_hidden_from_an_emulated_guest_alone() {
        let further = ["x=1".to_owned()];
        let machine = |accelerator| Machine {
            qemu: Path::new("qemu"),
            accelerator,
            cpus: 1,
            memory_bytes: 1 << 30,
            nics: 2,
            shares: &[],
            disks: &[],
            kernel: Path::new("k"),
            initramfs: Path::new("i"),
            console: Path::new("c"),
            ports: &[],
            kernel_arguments: &further,
        };
        let text = |accelerator| format!("{:?}", machine(accelerator).command());
        assert!(text(Accelerator::Tcg).contains("max,-erms,-fsrm") && text(Accelerator::Tcg).contains("clearcpuid=297,580 x=1"));
        assert!(!text(Accelerator::Kvm).contains("erms") && !text(Accelerator::Kvm).contains("clearcpuid"));
        assert!(text(Accelerator::Tcg).contains("net=10.0.3.0/24"));
        assert!(!text(Accelerator::Tcg).contains("fsdev"), "a probe sees nothing of the host");
    }
}
