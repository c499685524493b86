//! The name of a setting as users write it: `postgres.shared_buffers` is `shared_buffers`.

use crate::rules::KINDS;

/// Prefixes of facts' names that only say where a setting is stored.
const PLACES: [&str; 21] = [
    "persistent.sysctl.",
    "persistent.module.",
    "sysctl.",
    "postgres.",
    "mysql.",
    "oracle.",
    "module.",
    "iscsid.",
    "multipath.",
    "oracleasm.",
    "solaris.system.",
    "solaris.ndd.",
    "aix.no.",
    "aix.nfso.",
    "aix.vmo.",
    "aix.ioo.",
    "aix.sys0.",
    "hpux.kctune.",
    "hpux.ndd.",
    "ontap7.option.",
    "ontap9.",
];

/// Facts whose setting has another name than the end of the fact's name.
const NAMES: [(&str, &str); 8] = [
    ("hw.memory_bytes", "memory"),
    ("hw.cpu_count", "the number of CPUs"),
    ("thp.enabled", "transparent_hugepage/enabled"),
    ("postgres.version", "PostgreSQL's version"),
    ("mysql.version", "the server's version"),
    ("oracle.version", "Oracle's version"),
    ("os.release", "the kernel's release"),
    ("tuned.profile", "the tuned profile"),
];

/// The plain name of a fact.
pub(crate) fn plain_name(name: &str) -> String {
    if let Some((_, plain)) = NAMES.iter().find(|(known, _)| *known == name) {
        return (*plain).to_owned();
    }
    if let Some(site) = name.strip_prefix("site.") {
        return site.replace('_', " ");
    }
    if let Some(limit) = name.strip_prefix("limit.") {
        let mut words = limit.splitn(3, '.');
        if let (Some(user), Some(kind), Some(item)) = (words.next(), words.next(), words.next()) {
            return format!("the {kind} limit {item} of {user}");
        }
    }
    if let Some(service) = name.strip_prefix("service.") {
        return format!("service {service}");
    }
    if let Some(package) = name.strip_prefix("package.") {
        return format!("package {package}");
    }
    if let Some(parameter) = name.strip_prefix("kernel.cmdline.") {
        return format!("kernel parameter {parameter}");
    }
    // One word of a value with several.
    if let Some((whole, word)) = name.rsplit_once('.')
        && name.starts_with("sysctl.")
        && word.chars().all(|c| c.is_ascii_digit())
    {
        return format!("value {word} of {}", plain_name(whole));
    }
    let place = PLACES.iter().find_map(|place| Some((*place, name.strip_prefix(place)?)));
    match (place, name.split_once('.')) {
        (Some((place, rest)), _) if place.starts_with("persistent.") => format!("{rest} at the next boot"),
        (Some((_, rest)), _) => rest.to_owned(),
        (None, Some((kind, attribute))) if kind == "each" || KINDS.contains(&kind) => attribute.to_owned(),
        (None, _) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_name_that_its_users_write() {
        for (name, plain) in [
            ("postgres.shared_buffers", "shared_buffers"),
            ("sysctl.vm.swappiness", "vm.swappiness"),
            ("persistent.sysctl.vm.swappiness", "vm.swappiness at the next boot"),
            ("sysctl.net.ipv4.tcp_rmem.3", "value 3 of net.ipv4.tcp_rmem"),
            ("mount.rsize", "rsize"),
            ("each.source", "source"),
            ("limit.oracle.hard.nofile", "the hard limit nofile of oracle"),
            ("site.storage_links", "storage links"),
            ("user.root", "user.root"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
