//! Blocks of oranfstab: `server: NAME`, then `local:`, `path:` and `export: … mount: …` up to the
//! next server. Source: Oracle Database installation guide, "Configuring Direct NFS Client".

/// The text after the key of the server's block gets exactly these values, one on each line. A
/// missing block is added with its export and mount. If only the export line is missing, it is
/// added.
pub(super) fn changed(text: &str, server: &str, mount: &(String, String), key: &str, value: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = |line: &str| named(line, "server").map(str::to_owned);
    let start = lines.iter().position(|line| head(line).as_deref() == Some(server));
    let values: String =
        value.split(',').map(str::trim).filter(|one| !one.is_empty()).map(|one| format!("{key}: {one}\n")).collect();
    let export = format!("export: {} mount: {}\n", mount.0, mount.1);
    let Some(start) = start else {
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{newline}server: {server}\n{values}{export}");
    };
    let length = lines.iter().skip(start + 1).take_while(|line| head(line).is_none()).count();
    let block = lines.get(start + 1..=start + length).unwrap_or(&[]);
    let mut out: String = lines.iter().take(start).copied().collect();
    out.push_str(&ended(lines.get(start).copied().unwrap_or("")));
    out.push_str(&values);
    for line in block.iter().filter(|line| named(line, key).is_none()) {
        out.push_str(&ended(line));
    }
    let exported =
        block.iter().filter_map(|line| named(line, "export")).any(|rest| rest.split_whitespace().last() == Some(&mount.1));
    if !exported {
        out.push_str(&export);
    }
    out.extend(lines.iter().skip(start + length + 1).copied());
    out
}

/// The rest of a line after `word:`, or after `word=` as in old files.
fn named<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let rest = line.trim().strip_prefix(word)?.trim_start();
    Some(rest.strip_prefix([':', '='])?.trim())
}

fn ended(line: &str) -> String {
    if line.ends_with('\n') { line.to_owned() } else { format!("{line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redo() -> (String, String) {
        ("/vol/redo".to_owned(), "/redo".to_owned())
    }

    #[test]
    fn a_block_is_made_with_its_export() {
        let text = changed("", "filer1", &redo(), "path", "10.0.0.1, 10.0.1.1");
        assert_eq!(text, "server: filer1\npath: 10.0.0.1\npath: 10.0.1.1\nexport: /vol/redo mount: /redo\n");
    }

    #[test]
    fn the_values_of_one_server_change_and_other_servers_stay() {
        let before = "server: other\npath: 1\nexport: /a mount: /a\nserver: filer1\nlocal: 9\npath: 2\nexport: /vol/redo mount: /redo\nserver: last\npath: 3";
        let after = changed(before, "filer1", &redo(), "path", "4,5");
        assert_eq!(after, before.replace("server: filer1\nlocal: 9\npath: 2\n", "server: filer1\npath: 4\npath: 5\nlocal: 9\n"));
    }
}
