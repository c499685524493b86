//! One option of one line in fstab. Source: fstab(5), nfs(5).

use host::mount_table::unescaped_text;

/// Options that exclude each other, besides `x` and `nox`.
const FAMILIES: &[(&str, &[&str])] = &[
    ("hard", &["hard", "soft", "softerr"]),
    ("bg", &["bg", "fg"]),
    ("proto", &["proto", "tcp", "udp", "rdma"]),
    ("vers", &["vers", "nfsvers", "v2", "v3", "v4", "v4.0", "v4.1", "v4.2"]),
    ("ro", &["ro", "rw"]),
    ("sync", &["sync", "async"]),
    ("actimeo", &["actimeo"]),
];

/// The text with one option of one mount changed. All other bytes stay.
pub(super) fn changed(text: &str, point: &str, option: &str, value: Option<&str>) -> Result<String, String> {
    let mut found = None;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let Some(fields) = fields(line) else { continue };
        if fields.point == point {
            if found.is_some() {
                return Err(format!("{point} stands there twice"));
            }
            found = Some((number, fields));
        }
    }
    let Some((number, fields)) = found else {
        return Err(format!("{point} has no line there"));
    };
    let options = with(fields.options, option, value);
    let mut out = String::with_capacity(text.len() + option.len() + 16);
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if at == number {
            out.push_str(line.get(..fields.at).unwrap_or(""));
            out.push_str(&options);
            out.push_str(line.get(fields.at + fields.options.len()..).unwrap_or(""));
        } else {
            out.push_str(line);
        }
    }
    Ok(out)
}

/// The options of a mount as its line has them; `None` if it has no line.
pub(crate) fn options_of(text: &str, point: &str) -> Option<String> {
    text.lines().filter_map(fields).find(|fields| fields.point == point).map(|fields| fields.options.to_owned())
}

/// The name of the family that an option belongs to. Options of one family exclude each other.
pub(super) fn family(option: &str) -> &str {
    let named = FAMILIES.iter().find(|(_, members)| members.contains(&option)).map(|(name, _)| *name);
    named.unwrap_or_else(|| option.strip_prefix("no").unwrap_or(option))
}

struct Fields<'a> {
    point: String,
    options: &'a str,
    /// Byte offset of the options in the line.
    at: usize,
}

fn fields(line: &str) -> Option<Fields<'_>> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let mut words = line.split_whitespace();
    let (_device, point, _kind, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
    // Each word is a slice of the line, so the difference of their addresses is the offset.
    let at = (options.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    Some(Fields { point: directory(point), options, at })
}

/// The mount point of a field, without a slash at its end.
fn directory(field: &str) -> String {
    let out = unescaped_text(field);
    if out.len() > 1 { out.trim_end_matches('/').to_owned() } else { out }
}

fn with(options: &str, option: &str, value: Option<&str>) -> String {
    let name = |word: &str| word.split_once('=').map_or(word, |(name, _)| name).to_owned();
    let removes = value == Some("-");
    let gone = |word: &str| {
        let name = name(word);
        if removes { name == option } else { family(&name) == family(option) }
    };
    let new = match value {
        Some("-") => None,
        Some(value) if !value.is_empty() && value != "true" => Some(format!("{option}={value}")),
        _ => Some(option.to_owned()),
    };
    let mut kept: Vec<String> = Vec::new();
    let mut placed = false;
    for word in options.split(',').filter(|word| !word.is_empty()) {
        if !gone(word) {
            kept.push(word.to_owned());
        } else if let Some(new) = new.as_ref().filter(|_| !placed) {
            kept.push(new.clone());
            placed = true;
        }
    }
    kept.extend(new.filter(|_| !placed));
    if kept.is_empty() { "defaults".to_owned() } else { kept.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FSTAB: &str = "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\n\
        filer:/vol/redo\t/u02/redo   nfs  rw,bg,soft,rsize=32768,vers=3\t0 0 # logs\n\
        filer:/vol/my\\040data /data\\040one nfs4 defaults 0 0";

    #[test]
    fn one_option_changes_and_the_rest_of_the_file_stays() {
        let after = changed(FSTAB, "/u02/redo", "rsize", Some("262144")).unwrap();
        assert_eq!(after, FSTAB.replace("rsize=32768", "rsize=262144"));
        let after = changed(FSTAB, "/u02/redo", "hard", None).unwrap();
        assert_eq!(after, FSTAB.replace("soft", "hard"));
        let after = changed(FSTAB, "/data one", "nconnect", Some("8")).unwrap();
        assert_eq!(after, FSTAB.replace("nfs4 defaults", "nfs4 defaults,nconnect=8"));
    }

    #[test]
    fn an_option_is_taken_away_and_no_options_are_defaults() {
        let after = changed(FSTAB, "/u02/redo", "bg", Some("-")).unwrap();
        assert_eq!(after, FSTAB.replace("rw,bg,soft", "rw,soft"));
        assert_eq!(with("noac", "noac", Some("-")), "defaults");
        assert_eq!(with("rw,soft", "hard", Some("-")), "rw,soft");
    }

    #[test]
    fn what_excludes_the_new_option_goes() {
        assert_eq!(with("rw,nointr,tcp", "intr", None), "rw,intr,tcp");
        assert_eq!(with("udp,hard", "proto", Some("tcp")), "proto=tcp,hard");
        assert_eq!(with("nfsvers=4.0,v3", "vers", Some("4.1")), "vers=4.1");
        assert_eq!(with("nolock,nofail,nodiratime", "lock", None), "lock,nofail,nodiratime");
        assert_eq!(with("rw,noatime", "norelatime", None), "rw,noatime,norelatime");
        assert_eq!(with("rw,auto,hard", "noauto", None), "rw,noauto,hard");
        assert_eq!(with("dev,noexec", "exec", None), "dev,exec");
    }

    #[test]
    fn a_mount_without_a_line_or_with_two_is_refused() {
        assert!(changed(FSTAB, "/u03", "hard", None).unwrap_err().contains("no line"));
        let twice = "a:/x /x nfs rw 0 0\nb:/x /x nfs rw 0 0\n";
        assert!(changed(twice, "/x", "hard", None).unwrap_err().contains("twice"));
        assert_eq!(options_of(FSTAB, "/data one").as_deref(), Some("defaults"));
    }
}
