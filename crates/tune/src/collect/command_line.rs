//! Command lines of a capture and the file names (slugs) made of them.

/// A command line as a file name. Every sequence of characters other than letters and digits
/// becomes one `-`.
pub(super) fn slug(line: &str) -> String {
    let mut slug = String::new();
    for letter in line.chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// The rest of a command line, or of a slug of one, after `begin`. The folder of the program is
/// ignored.
pub(super) fn rest_after(line: &str, begin: &str) -> Option<String> {
    let mut given = line.split_whitespace();
    if line.contains(char::is_whitespace) {
        let first = given.next().map(|word| word.rsplit('/').next().unwrap_or(word));
        let mut given = first.into_iter().chain(given);
        for word in begin.split_whitespace() {
            if given.next() != Some(word) {
                return None;
            }
        }
        return Some(given.collect::<Vec<_>>().join(" "));
    }
    let (line, begin) = (line.rsplit('/').next().unwrap_or(line), slug(begin));
    let line = slug_keeping_names(line);
    let line = ["usr-sbin-", "usr-bin-", "sbin-", "bin-"].iter().find_map(|folder| line.strip_prefix(folder)).unwrap_or(&line);
    let rest = line.strip_prefix(begin.as_str())?;
    match rest.strip_prefix(['-', '.']) {
        Some(rest) => Some(rest.to_owned()),
        None => rest.is_empty().then(String::new),
    }
}

/// A slug that keeps dots, because names of interfaces contain them. All other sequences of
/// separators become one `-`.
fn slug_keeping_names(line: &str) -> String {
    let mut slug = String::new();
    for letter in line.chars() {
        if letter.is_ascii_alphanumeric() || letter == '.' {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_its_line_and_by_its_slug() {
        assert_eq!(slug("ndd -get /dev/tcp tcp_recv_hiwat"), "ndd-get-dev-tcp-tcp-recv-hiwat");
        assert_eq!(rest_after("/usr/sbin/lsattr -El hdisk3", "lsattr -El").as_deref(), Some("hdisk3"));
        assert_eq!(rest_after("lsattr-El-hdisk3", "lsattr -El").as_deref(), Some("hdisk3"));
        assert_eq!(rest_after("ethtool_-i_eth0", "ethtool -i").as_deref(), Some("eth0"));
        assert_eq!(rest_after("sysctl-a", "sysctl -a").as_deref(), Some(""));
        assert_eq!(rest_after("sysctl", "sysctl -a"), None);
        assert_eq!(rest_after("mountx", "mount"), None);
    }
}
