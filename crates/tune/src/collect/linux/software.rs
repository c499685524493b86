//! Services and packages of Linux.

use crate::collect::collected::Collected;
use crate::collect::text::{telling, words};
use crate::facts::Facts;

/// Which services are enabled, and which packages are installed.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    services(collected, facts);
    packages(collected, facts);
}

fn services(collected: &Collected, facts: &mut Facts) {
    let listed = |begin: &str| collected.outputs(begin).any(|(_, output)| !output.text.trim().is_empty());
    if !listed("systemctl list-unit-files") && !listed("chkconfig") {
        let line = collected
            .denied
            .keys()
            .find(|line| line.starts_with("systemctl"))
            .map_or("systemctl list-unit-files", String::as_str);
        facts.put_unknown("service.", &collected.why(line));
    }
    if !["rpm", "installed-rpms", "sh -c rpm", "dpkg", "dpkg-query", "installed-debs"].iter().any(|begin| listed(begin)) {
        facts.put_unknown("package.", "no list of packages was collected");
    }
    for (_, output) in collected.outputs("systemctl list-unit-files") {
        for (_, line) in telling(&output.text, &[]) {
            let mut line = words(line);
            if let (Some(unit), Some(state)) = (line.next(), line.next())
                && let Some(name) = unit.strip_suffix(".service").or_else(|| unit.strip_suffix(".timer").map(|_| unit))
            {
                facts.put(&format!("service.{name}"), if state.starts_with("enabled") { "enabled" } else { state }, &output.line);
            }
        }
    }
    for (_, output) in collected.outputs("chkconfig") {
        for (_, line) in telling(&output.text, &[]) {
            if let Some(name) = words(line).next().filter(|_| line.contains("3:")) {
                let on = line.contains("3:on") || line.contains("5:on");
                facts.put(&format!("service.{name}"), if on { "enabled" } else { "disabled" }, &output.line);
            }
        }
    }
}

fn packages(collected: &Collected, facts: &mut Facts) {
    for begin in ["rpm", "installed-rpms", "sh -c rpm"] {
        for (_, output) in collected.outputs(begin) {
            for (_, line) in telling(&output.text, &[]) {
                let all: Vec<&str> = words(line).collect();
                match all.as_slice() {
                    [name, version] if version.starts_with(|letter: char| letter.is_ascii_digit()) => {
                        facts.put(&format!("package.{name}"), *version, &output.line);
                    }
                    [full, ..] => {
                        let full = ["x86_64", "noarch", "i386", "i586", "i686", "aarch64", "ia64", "ppc64le", "s390x"]
                            .iter()
                            .find_map(|arch| full.strip_suffix(arch).and_then(|rest| rest.strip_suffix('.')))
                            .unwrap_or(full);
                        let mut parts = full.rsplitn(3, '-');
                        if let (Some(release), Some(version), Some(name)) = (parts.next(), parts.next(), parts.next()) {
                            package(name, &format!("{version}-{release}"), &output.line, facts);
                        }
                    }
                    [] => {}
                }
            }
        }
    }
    for begin in ["dpkg", "dpkg-query", "installed-debs"] {
        for (_, output) in collected.outputs(begin) {
            for (_, line) in telling(&output.text, &[]) {
                match words(line).collect::<Vec<_>>().as_slice() {
                    ["ii", name, version, ..] | [name, version] => {
                        package(name.split(':').next().unwrap_or(name), version, &output.line, facts)
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Several installed versions of one package, as of kernels, are not a contradiction. The last one
/// in the list is kept.
fn package(name: &str, version: &str, origin: &str, facts: &mut Facts) {
    let name = format!("package.{name}");
    facts.host.remove(&name);
    facts.put(&name, version, origin);
}
