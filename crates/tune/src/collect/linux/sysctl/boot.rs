//! Kernel parameters that are set at boot: the files of `sysctl.d` in the order of systemd-sysctl
//! (sysctl.d(5)), or in the order of `sysctl --system` (sysctl(8)) on systems without systemd.

use std::collections::{BTreeMap, BTreeSet};

use crate::collect::collected::{Collected, State};
use crate::collect::linux::drop_ins::{Part, parts};
use crate::collect::linux::has_systemd;
use crate::collect::text::{odd, telling, value};
use crate::facts::{Facts, Value};

/// Folders of systemd-sysctl. The first one takes precedence.
const FOLDERS: &[&str] =
    &["/etc/sysctl.d/", "/run/sysctl.d/", "/usr/local/lib/sysctl.d/", "/usr/lib/sysctl.d/", "/lib/sysctl.d/"];

/// The old file. systemd reads it only if a folder contains a link to it.
const OLD: &str = "/etc/sysctl.conf";

/// Copies of one key that are kept. A real configuration has fewer.
const COPIES_MAX: usize = 64;

/// What the files set.
#[derive(Debug, Default)]
pub(super) struct Boot {
    /// Values of each key with their origins, in the order of reading. The last one takes effect.
    pub(super) copies: BTreeMap<String, Vec<(Value, String)>>,
    /// The position of the last part that sets each key by name. Keys that only patterns set are
    /// missing.
    set_at: BTreeMap<String, usize>,
    /// The parts that were not read: position and reason.
    unread: Vec<(usize, String)>,
}

impl Boot {
    /// Reads the files. `running` has the keys of the running kernel, which patterns are matched
    /// with.
    pub(super) fn read(collected: &Collected, running: &[&str], facts: &mut Facts) -> Self {
        let mut boot = Self::default();
        let mut patterns = Vec::new();
        let mut excluded = BTreeSet::new();
        let systemd = has_systemd(collected);
        for (at, part) in order(collected, systemd).into_iter().enumerate() {
            let (path, text) = match part {
                Part::Read(path, text) => (path, text),
                Part::Unread(path) => {
                    boot.unread.push((at, collected.why_unread(&path)));
                    continue;
                }
            };
            for (number, line) in telling(text, &['#', ';']) {
                match Line::of(line) {
                    Some(Line::Exclude(key)) => {
                        excluded.insert(key);
                    }
                    Some(Line::Set(key, said)) if is_pattern(&key) => {
                        patterns.push((key, value(said), format!("{path}:{number}")))
                    }
                    Some(Line::Set(key, said)) => {
                        boot.set_at.insert(key.clone(), at);
                        boot.push(key, value(said), format!("{path}:{number}"));
                    }
                    None => odd(facts, path, number, line),
                }
            }
        }
        // A pattern never changes a key that a line sets by name, in whichever order they come.
        for (pattern, said, origin) in patterns {
            let free = |key: &&&str| !boot.set_at.contains_key(**key) && !excluded.contains(**key) && matches(&pattern, key);
            let keys: Vec<String> = running.iter().filter(free).map(|key| (*key).to_owned()).collect();
            keys.into_iter().for_each(|key| boot.push(key, said.clone(), origin.clone()));
        }
        if systemd && let State::Read(text) = collected.state(OLD) {
            boot.add_old(text);
        }
        boot
    }

    /// Adds the copies in the old file. On a system with systemd, `sysctl --system` still reads it
    /// last. A rule compares the two, so its copies are listed first, before those that take
    /// effect.
    fn add_old(&mut self, text: &str) {
        for (number, line) in telling(text, &['#', ';']) {
            if let Some(Line::Set(key, said)) = Line::of(line)
                && let Some(copies) = self.copies.get_mut(&key)
                && copies.len() < COPIES_MAX
            {
                copies.insert(0, (value(said), format!("{OLD}:{number}")));
            }
        }
    }

    fn push(&mut self, key: String, value: Value, origin: String) {
        let copies = self.copies.entry(key).or_default();
        if copies.len() >= COPIES_MAX {
            copies.pop();
        }
        copies.push((value, origin));
    }

    /// Why the value of a key is not known: a later part, which may set it, was not read.
    pub(super) fn why_unknown(&self, key: &str) -> Option<String> {
        let set_at = self.set_at.get(key);
        let (_, reason) = self.unread.iter().find(|(at, _)| set_at.is_none_or(|set_at| at > set_at))?;
        Some(reason.clone())
    }

    /// Why it is not known which keys are not set.
    pub(super) fn unread(&self) -> Option<String> {
        self.unread.first().map(|(_, reason)| reason.clone())
    }
}

/// The parts in the order of reading: as `systemd-analyze cat-config` prints them, otherwise by the
/// rules of the man pages.
fn order(collected: &Collected, systemd: bool) -> Vec<Part<'_>> {
    let asked =
        collected.outputs("systemd-analyze cat-config").find(|(rest, output)| rest.contains("sysctl") && output.exit == Some(0));
    if let Some((_, output)) = asked.filter(|_| systemd) {
        return printed(&output.text);
    }
    let mut found = if systemd || collected.files.keys().any(|path| path.contains("/sysctl.d/")) {
        parts(collected, FOLDERS, &[".conf"])
    } else {
        Vec::new()
    };
    match collected.state(OLD) {
        _ if systemd => {}
        State::Read(text) => found.push(Part::Read(OLD, text)),
        State::Unread => found.push(Part::Unread(OLD.to_owned())),
        State::Absent => {}
    }
    found
}

/// The files that `systemd-analyze cat-config` printed, each after a line with its path.
fn printed(text: &str) -> Vec<Part<'_>> {
    let path_of = |line: &'_ str| -> Option<usize> {
        let path = line.strip_prefix("# ")?;
        FOLDERS.iter().any(|folder| path.starts_with(folder) && path.ends_with(".conf")).then_some(path.len())
    };
    let mut found = Vec::new();
    let mut begin: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(length) = path_of(line.trim_end()) {
            if let Some((path, from)) = begin {
                found.push(Part::Read(path, &text[from..at]));
            }
            begin = Some((&text[at + 2..at + 2 + length], at + line.len()));
        }
        at += line.len();
    }
    found.extend(begin.map(|(path, from)| Part::Read(path, &text[from..])));
    found
}

/// A line of such a file.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// `key = value`. A `-` before it means that errors are ignored.
    Set(String, &'a str),
    /// `-key`: patterns do not set this key.
    Exclude(String),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let bare = line.strip_prefix('-');
        match line.split_once('=') {
            Some((key, said)) => {
                let key = key.trim().trim_start_matches('-').trim();
                (!key.is_empty()).then(|| Line::Set(dotted(key), said.trim()))
            }
            None => bare.map(|key| Line::Exclude(dotted(key.trim()))),
        }
    }
}

/// A key with dots between its parts. The first separator decides whether slashes or dots separate;
/// the others belong to a name.
pub(super) fn dotted(key: &str) -> String {
    match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
        Some(b'/') => key.replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/"),
        _ => key.to_owned(),
    }
}

fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?', '['])
}

/// Whether a pattern of glob(7) matches a key. `*` and `?` do not match a separator.
fn matches(pattern: &str, key: &str) -> bool {
    let (patterns, names): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), key.split('.').collect());
    patterns.len() == names.len()
        && patterns.iter().zip(names).all(|(pattern, name)| matches_part(pattern.as_bytes(), name.as_bytes()))
}

fn matches_part(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skip| matches_part(rest, &name[skip..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, tail @ ..]) => matches_part(rest, tail),
        ([b'[', rest @ ..], [first, tail @ ..]) => {
            let Some(end) = rest.iter().skip(1).position(|byte| *byte == b']').map(|at| at + 1) else { return false };
            let (set, rest) = (&rest[..end], &rest[end + 1..]);
            let (negative, set) =
                set.strip_prefix(b"!").or_else(|| set.strip_prefix(b"^")).map_or((false, set), |set| (true, set));
            let ranges = set.windows(3).filter(|part| part[1] == b'-');
            let is_in = set.contains(first) || ranges.into_iter().any(|part| (part[0]..=part[2]).contains(first));
            is_in != negative && matches_part(rest, tail)
        }
        ([one, rest @ ..], [first, tail @ ..]) => one == first && matches_part(rest, tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(files: &[(&str, &str)]) -> Boot {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\n");
        files.iter().for_each(|(path, text)| collected.take_file(path, text.as_bytes()));
        Boot::read(
            &collected,
            &["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.eth0.rp_filter", "vm.swappiness"],
            &mut Facts::default(),
        )
    }

    fn last(boot: &Boot, key: &str) -> Option<Value> {
        boot.copies.get(key).and_then(|copies| copies.last()).map(|(value, _)| value.clone())
    }

    #[test]
    fn the_last_name_wins_and_a_masked_file_sets_nothing() {
        let found = boot(&[
            ("/usr/lib/sysctl.d/50-a.conf", "vm.swappiness = 1\n"),
            ("/etc/sysctl.d/50-a.conf", ""),
            ("/usr/local/lib/sysctl.d/40-b.conf", "vm/swappiness=2\n"),
            ("/run/sysctl.d/40-b.conf", "-vm.swappiness = 3\n"),
            ("/etc/sysctl.d/90-c.conf.rpmsave", "vm.swappiness = 4\n"),
            ("/etc/sysctl.conf", "vm.swappiness = 5\n"),
        ]);
        assert_eq!(last(&found, "vm.swappiness"), Some(3.into()));
    }

    #[test]
    fn a_pattern_sets_what_no_line_sets_or_excludes() {
        let found = boot(&[(
            "/etc/sysctl.d/a.conf",
            "net.ipv4.conf.eth0.rp_filter = 1\nnet.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\n",
        )]);
        assert_eq!(last(&found, "net.ipv4.conf.eth0.rp_filter"), Some(1.into()));
        assert_eq!(last(&found, "net.ipv4.conf.all.rp_filter"), None);
        assert_eq!(
            last(&boot(&[("/etc/sysctl.d/a.conf", "net/ipv4/conf/[a-b]l?/rp_filter=2\n")]), "net.ipv4.conf.all.rp_filter"),
            Some(2.into())
        );
    }

    #[test]
    fn without_systemd_the_old_file_is_read_last() {
        let mut collected = Collected::default();
        collected.take_file("/etc/sysctl.d/99.conf", b"vm.swappiness = 1\n");
        collected.take_file("/etc/sysctl.conf", b"vm.swappiness = 2\n");
        assert_eq!(last(&Boot::read(&collected, &[], &mut Facts::default()), "vm.swappiness"), Some(2.into()));
    }

    #[test]
    fn the_answer_of_systemd_analyze_decides() {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\n");
        collected.take_file("/etc/sysctl.d/99.conf", b"vm.swappiness = 1\n");
        let text = "# /usr/lib/sysctl.d/a.conf\nvm.swappiness = 7\n\n# /etc/sysctl.d/b.conf\n# a comment\nvm.swappiness = 8\n";
        collected.take_command("systemd-analyze cat-config sysctl.d", text.as_bytes(), Some(0));
        let found = Boot::read(&collected, &[], &mut Facts::default());
        assert_eq!(found.copies["vm.swappiness"].last().unwrap(), &(8.into(), "/etc/sysctl.d/b.conf:2".to_owned()));
    }

    #[test]
    fn a_file_that_was_not_read_makes_earlier_values_unknown() {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\n");
        collected.take_file("/etc/sysctl.d/10.conf", b"vm.swappiness = 1\nvm.dirty_ratio = 1\n");
        collected.denied.insert("/etc/sysctl.d/20.conf".to_owned(), "permission denied".to_owned());
        collected.take_file("/etc/sysctl.d/30.conf", b"vm.dirty_ratio = 2\n");
        let found = Boot::read(&collected, &[], &mut Facts::default());
        assert!(found.why_unknown("vm.swappiness").is_some_and(|why| why.contains("permission denied")));
        assert_eq!(found.why_unknown("vm.dirty_ratio"), None);
        assert!(found.unread().is_some());
    }
}
