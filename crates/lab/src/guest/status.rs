//! What exists for a guest, what is missing, and the command that fixes it.

use std::path::Path;

use serde::Serialize;

use crate::doctor::{Finding, State};
use crate::guest::cache::{Cache, Kernel};
use crate::guest::kvm;
use crate::guest::programs::{APT_GET, DEPMOD, DPKG_DEB, Program, QEMU, static_busybox};

/// Result of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether `millrace guest run` can boot.
    pub ready: bool,
    /// The kernel that guests boot, if it was fetched.
    pub kernel: Option<Kernel>,
    /// Whether guests run with KVM; `None` until it was tested.
    pub kvm: Option<bool>,
    /// Result of each check.
    pub findings: Vec<Finding>,
    /// The command to run first.
    pub fix: Option<String>,
}

/// Checks the requirements of a guest. Starts nothing.
#[must_use]
pub fn examine(cache: &Cache) -> Status {
    let kernel = cache.kernel();
    let qemu = QEMU.find();
    let mut findings = vec![program(&QEMU, "boots the guest"), busybox(), kernel_finding(cache, kernel.as_ref())];
    let tried = qemu.as_deref().and_then(|qemu| kvm::known(cache, qemu));
    findings.push(kvm_finding(tried.as_ref()));
    let ready = findings.iter().all(|finding| finding.state != State::Missing);
    Status { ready, kernel, kvm: tried.map(|tried| tried.works), fix: fix(&findings), findings }
}

/// The command for all missing packages at once, then the one for the kernel.
fn fix(findings: &[Finding]) -> Option<String> {
    let missing: Vec<&str> =
        findings.iter().filter(|finding| finding.state == State::Missing).filter_map(|finding| finding.fix.as_deref()).collect();
    let packages: Vec<&str> = missing.iter().filter_map(|fix| fix.strip_prefix(INSTALL)).collect();
    if packages.is_empty() {
        missing.first().map(|fix| (*fix).to_owned())
    } else {
        Some(format!("{INSTALL}{}", packages.join(" ")))
    }
}

const INSTALL: &str = "apt-get install --no-install-recommends ";

fn finding(subject: &str, state: State, found: String, fix: Option<String>) -> Finding {
    Finding { subject: subject.to_owned(), state, found, fix }
}

fn program(program: &Program, job: &str) -> Finding {
    match program.find() {
        Some(file) => finding(program.package, State::Good, file.display().to_string(), None),
        None => {
            let found = format!("{} is missing: it {job}", program.name);
            finding(program.package, State::Missing, found, Some(format!("{INSTALL}{}", program.package)))
        }
    }
}

fn busybox() -> Finding {
    match static_busybox() {
        Ok(file) => finding("busybox", State::Good, file.display().to_string(), None),
        Err(error) => finding("busybox", State::Missing, format!("cannot {error}"), Some(format!("{INSTALL}busybox-static"))),
    }
}

fn kernel_finding(cache: &Cache, kernel: Option<&Kernel>) -> Finding {
    if let Some(kernel) = kernel {
        let found = format!("{} of {}, in {}", kernel.version, kernel.package, cache.root().display());
        return finding("kernel", State::Good, found, None);
    }
    let tools = [&DEPMOD, &DPKG_DEB].into_iter().find(|tool| tool.find().is_none());
    if let Some(tool) = tools {
        return finding(
            "kernel",
            State::Missing,
            format!("{} is missing: it unpacks one", tool.name),
            Some(format!("{INSTALL}{}", tool.package)),
        );
    }
    let way = if APT_GET.find().is_some() { "millrace guest fetch" } else { "millrace guest fetch --package FILE" };
    finding("kernel", State::Missing, format!("none in {}", cache.root().display()), Some(way.to_owned()))
}

fn kvm_finding(tried: Option<&kvm::Tried>) -> Finding {
    match tried {
        Some(tried) if tried.works => finding("KVM", State::Good, tried.found.clone(), None),
        Some(tried) => finding("KVM", State::Note, format!("{}; guests are emulated (TCG)", tried.found), None),
        None if Path::new("/dev/kvm").exists() => {
            finding("KVM", State::Note, "not tried yet: `millrace guest fetch` or the first run tries it".to_owned(), None)
        }
        None => finding("KVM", State::Note, "not available; guests are emulated (TCG)".to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_names_all_packages_at_once_and_the_kernel_after_them() {
        let missing = |fix: &str| finding("x", State::Missing, String::new(), Some(fix.to_owned()));
        let packages =
            [missing("apt-get install --no-install-recommends a"), missing("apt-get install --no-install-recommends b")];
        let fetch = missing("millrace guest fetch");
        assert_eq!(
            fix(&[packages.to_vec(), vec![fetch.clone()]].concat()).unwrap(),
            "apt-get install --no-install-recommends a b"
        );
        assert_eq!(fix(&[fetch]).unwrap(), "millrace guest fetch");
        assert_eq!(fix(&[]), None);
    }

    #[test]
    fn an_empty_cache_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let status = examine(&Cache::at(Some(folder.path().join("none"))).unwrap());
        assert!(!status.ready && status.kernel.is_none() && status.fix.is_some(), "{status:?}");
    }
}
