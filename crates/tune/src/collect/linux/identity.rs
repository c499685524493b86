//! The distribution, kernel, memory, processors and kernel command line of a Linux host.

use crate::collect::REDACTED;
use crate::collect::collected::Collected;
use crate::collect::text::{self, lines, pair, telling, unquoted, value, words};
use crate::facts::{Facts, Value};

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    for path in ["/etc/os-release", "/usr/lib/os-release"] {
        let Some(text) = collected.file(path) else { continue };
        for (_, line) in telling(text, &['#']) {
            match pair(line, '=') {
                Some(("ID", id)) => facts.put("os.distribution", unquoted(id), path),
                Some(("VERSION_ID", version)) => facts.put("os.distribution_version", unquoted(version), path),
                _ => {}
            }
        }
        break;
    }
    if facts.value("os.distribution").is_none()
        && let Some(text) = collected.file("/etc/redhat-release")
    {
        let version = words(text).find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
        let update = text.split("Update ").nth(1).and_then(|rest| words(rest).next()).map(|word| word.trim_matches(')'));
        let distribution = if text.starts_with("CentOS") { "centos" } else { "rhel" };
        facts.put("os.distribution", distribution, "/etc/redhat-release");
        if let Some(version) = version {
            let version = update.map_or(version.to_owned(), |update| format!("{version}.{update}"));
            facts.put("os.distribution_version", version, "/etc/redhat-release");
        }
    }
    if let Some(output) = collected.output("uname -a").or_else(|| collected.output("uname")) {
        if let Some(release) = words(&output.text).nth(2) {
            facts.put("os.release", release, &output.line);
        }
        word_bits(&output.text, &output.line, facts);
    } else if let Some(output) = collected.output("uname -r") {
        facts.put("os.release", output.text.trim(), &output.line);
        word_bits(&output.text, &output.line, facts);
    }
    if let Some(release) = facts.host_text("os.release").and_then(parts) {
        // NFS_MAX_FILE_IO_BUFFER_SIZE of kernel 2.6.9 in RHEL 4. RHEL 5 has 1 MiB.
        if release < [2, 6, 18] {
            facts.put("nfs.client_transfer_max", 32 << 10, "the release of the kernel");
        }
    }
    if let Some(text) = collected.file("/proc/meminfo") {
        for (_, line) in telling(text, &[]) {
            if let Some((name, size)) = pair(line, ':')
                && let Some(size) = text::bytes(size)
            {
                facts.put(&format!("meminfo.{name}"), size, "/proc/meminfo");
                match name {
                    "MemTotal" => facts.put("hw.memory_bytes", size, "/proc/meminfo"),
                    "Hugepagesize" => facts.put("hw.huge_page_bytes", size, "/proc/meminfo"),
                    _ => {}
                }
            }
        }
    } else {
        facts.put_unknown("hw.memory_bytes", &collected.why("/proc/meminfo"));
    }
    if let Some(text) = collected.file("/proc/cpuinfo") {
        let count = lines(text).filter(|(_, line)| line.starts_with("processor")).count();
        if count > 0 {
            facts.put("hw.cpu_count", i64::try_from(count).unwrap_or(i64::MAX), "/proc/cpuinfo");
        }
    }
    for (_, line) in collected.file("/proc/cmdline").into_iter().flat_map(lines) {
        for word in words(line).filter(|word| *word != REDACTED) {
            let (key, setting) = word.split_once('=').map_or((word, Value::Bool(true)), |(key, setting)| (key, value(setting)));
            // Some parameters, such as console=, may be given several times. The last one is kept.
            facts.host.remove(&format!("kernel.cmdline.{key}"));
            facts.put(&format!("kernel.cmdline.{key}"), setting, "/proc/cmdline");
        }
    }
}

/// The first three numbers of a kernel release.
fn parts(release: &str) -> Option<[u32; 3]> {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

fn word_bits(text: &str, origin: &str, facts: &mut Facts) {
    let wide = ["x86_64", "aarch64", "ppc64", "s390x", "amd64", "ia64"].iter().any(|machine| text.contains(machine));
    let narrow = ["i386", "i486", "i586", "i686", "armv7"].iter().any(|machine| text.contains(machine));
    if wide || narrow {
        facts.put("os.word_bits", if wide { 64_i64 } else { 32 }, origin);
    }
}
