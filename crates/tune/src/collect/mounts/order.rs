//! Mount options that repeat or contradict each other. The last one takes effect (mount(8), nfs(5),
//! and the kernel's parser of NFS options, fs/nfs/fs_context.c).

/// Options, each with the name of its slot. Options of one slot replace each other, and so do `X`
/// and `noX`.
const OPPOSITES: &[(&str, &str)] = &[
    ("softerr", "hard"),
    ("soft", "hard"),
    ("nohard", "hard"),
    ("async", "sync"),
    ("ro", "rw"),
    ("fg", "bg"),
    ("nfsvers", "vers"),
    ("v2", "vers"),
    ("v3", "vers"),
    ("v4", "vers"),
    ("v4.0", "vers"),
    ("v4.1", "vers"),
    ("v4.2", "vers"),
    ("tcp", "proto"),
    ("tcp6", "proto"),
    ("udp", "proto"),
    ("udp6", "proto"),
    ("rdma", "proto"),
];

/// The slot of an option, which is what it decides: `soft` and `hard` have the same, and so have
/// `rsize=1` and `rsize=2`.
pub(in crate::collect) fn slot(option: &str) -> &str {
    let key = option.split('=').next().unwrap_or(option);
    let opposite = OPPOSITES.iter().find(|(name, _)| *name == key).map(|(_, slot)| *slot);
    opposite.unwrap_or_else(|| key.strip_prefix("no").filter(|rest| !rest.is_empty()).unwrap_or(key))
}

/// The options that take effect: the last one of each slot.
pub(in crate::collect) fn last_of_each(options: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for (at, option) in options.iter().enumerate() {
        if !options[at + 1..].iter().any(|later| slot(later) == slot(option)) {
            // mount.nfs turns `Hard=False` into `nohard`.
            kept.push(if option == "nohard" { "soft".to_owned() } else { option.clone() });
        }
    }
    kept
}

/// The options as other systems read them: the first one of each key.
pub(in crate::collect) fn first_of_each(options: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    super::merge(&mut kept, options.iter().cloned());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_contrary_options_counts() {
        let kept = |options: &str| last_of_each(&super::super::split(options)).join(",");
        assert_eq!(kept("soft,vers=3,hard"), "vers=3,hard");
        assert_eq!(kept("hard,nosuid,softerr"), "nosuid,softerr");
        assert_eq!(kept("timeo=5,timeo=600,ac,noac"), "timeo=600,noac");
        assert_eq!(kept("vers=3,nfsvers=4.1,tcp,proto=udp"), "nfsvers=4.1,proto=udp");
        assert_eq!(kept("hard,nohard"), "soft");
        assert_eq!(kept("async,sync,nofail,relatime"), "sync,nofail,relatime");
    }
}
