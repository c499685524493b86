//! Facts of ONTAP 9: tables and long listings of its command line.

use super::collected::{Collected, Output};
use super::text::{bytes, head, integer, lines, name_of, pair, telling, truth, value, words};
use crate::facts::{Facts, Value};

/// Notes all facts of a cluster. `whole` means that the capture is a cluster's and not a host's.
pub(super) fn facts(collected: &Collected, whole: bool, facts: &mut Facts) {
    for begin in ["version", "cluster image show", "system node image show"] {
        for (_, output) in collected.outputs(begin) {
            if let Some(version) = super::ontap7::release(&output.text) {
                facts.put("ontap9.version", version, &output.line);
            }
        }
    }
    let mut any = false;
    for begin in ["nfs server show", "vserver nfs show", "nfs show"] {
        for (_, output) in collected.outputs(begin) {
            any = true;
            nfs(output, facts);
        }
    }
    if whole && !any {
        facts.put_unknown("ontap9.nfs.", &collected.why("vserver nfs show"));
    }
    let things: &[(&[&str], &str, &[&str])] = &[
        (&["volume show", "vol show"], "ontap_volume", &["volume", "volume_name"]),
        (&["network port show"], "ontap_port", &["port"]),
        (&["network interface show"], "ontap_if", &["lif", "logical_interface_name"]),
        (&["lun show", "lun"], "lun", &["path", "lun_path"]),
        (&["igroup show", "lun igroup show"], "igroup", &["igroup", "igroup_name"]),
        (&["storage aggregate show", "aggr show"], "ontap_aggregate", &["aggregate"]),
    ];
    for (begins, kind, keys) in things {
        let outputs: Vec<&Output> = begins.iter().flat_map(|begin| collected.outputs(begin)).map(|(_, output)| output).collect();
        let mut seen = Vec::new();
        for output in outputs {
            // "lun" also matches the outputs of `lun igroup show`.
            if !seen.contains(&output.line) && (*kind != "lun" || !output.line.contains("igroup")) {
                seen.push(output.line.clone());
                put_things(output, kind, keys, facts);
            }
        }
    }
}

/// The rows of a listing, as a table or in long form: pairs of field name and cell.
fn rows(text: &str, origin: &str, facts: &mut Facts) -> Vec<Vec<(String, String)>> {
    let long = lines(text).any(|(_, line)| line.trim_start().len() < line.len() && pair(line, ':').is_some())
        && !lines(text).any(|(_, line)| is_rule(line));
    if long { long_rows(text) } else { table(text, origin, facts) }
}

/// Whether a line is the row of hyphens below the names of columns.
fn is_rule(line: &str) -> bool {
    line.len() > 2 && line.starts_with('-') && line.chars().all(|letter| letter == '-' || letter == ' ')
}

/// The rows of a table. Each run of hyphens in the line below the names is the width of a column.
fn table(text: &str, origin: &str, facts: &mut Facts) -> Vec<Vec<(String, String)>> {
    let all: Vec<&str> = lines(text).map(|(_, line)| line.trim_end()).collect();
    let Some(rule) = all.iter().position(|line| is_rule(line)) else {
        if !text.trim().is_empty() {
            facts.remark(format!("{origin} is not a known table: {:?}", head(text.trim(), 60)));
        }
        return Vec::new();
    };
    let mut columns: Vec<(usize, usize)> = Vec::new();
    for (at, letter) in head(all[rule], 4096).char_indices() {
        let goes_on = columns.last().is_some_and(|(_, end)| *end == at);
        match columns.last_mut() {
            Some((_, end)) if letter == '-' && goes_on => *end += 1,
            _ if letter == '-' => columns.push((at, at + 1)),
            _ => {}
        }
    }
    let names: Vec<String> = match rule.checked_sub(1).and_then(|above| all.get(above)) {
        // A listing of fields has one word for each column, and a word may be longer than its
        // column.
        Some(above) if words(above).count() == columns.len() => words(above).map(field).collect(),
        Some(above) => columns.iter().map(|column| field(cell(above, *column))).collect(),
        None => return Vec::new(),
    };
    let mut rows = Vec::new();
    for line in &all[rule + 1..] {
        if line.trim().is_empty() || line.ends_with("displayed.") || line.contains("entries were displayed") || is_rule(line) {
            continue;
        }
        let cells: Vec<&str> = words(line).collect();
        let row: Vec<(String, String)> = if cells.len() == names.len() {
            names.iter().zip(cells).map(|(name, cell)| (name.clone(), cell.to_owned())).collect()
        } else {
            names.iter().zip(&columns).map(|(name, column)| (name.clone(), cell(line, *column).to_owned())).collect()
        };
        rows.push(row);
    }
    rows
}

fn cell(line: &str, (begin, end): (usize, usize)) -> &str {
    let begin = (0..=begin.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    head(&line[begin..], end.saturating_sub(begin)).trim()
}

/// The rows of a listing in long form, `   Field Name: value`. A new row begins when a field
/// repeats.
fn long_rows(text: &str) -> Vec<Vec<(String, String)>> {
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for (_, line) in telling(text, &[]) {
        let Some((key, said)) = line.split_once(": ").map(|(key, said)| (field(key), said.trim().to_owned())) else { continue };
        let begins = rows.last().is_none_or(|row| row.iter().any(|(other, _)| *other == key));
        if begins {
            rows.push(Vec::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push((key, said));
        }
    }
    rows
}

/// The name of a field in facts: `tcp-max-xfer-size` becomes `tcp_max_xfer_size`, and `v4.1` stays.
fn field(name: &str) -> String {
    let name = name.trim();
    if name.starts_with('v') && name.contains('.') && !name.contains(' ') {
        return name.replace('-', "_");
    }
    match name_of(name).as_str() {
        "nfs_v3" | "nfsv3" | "general_nfs_v3" => "v3".to_owned(),
        "nfs_v4_0" | "nfsv4_0" => "v4.0".to_owned(),
        "nfs_v4_1_minor_version_support" | "nfs_v4_1" | "nfsv4_1" => "v4.1".to_owned(),
        "nfs_mount_root_only" => "mount_rootonly".to_owned(),
        "nfs_root_only" => "nfs_rootonly".to_owned(),
        "maximum_tcp_transfer_size" | "tcp_maximum_transfer_size_bytes" | "tcp_maximum_transfer_size" => {
            "tcp_max_xfer_size".to_owned()
        }
        "flowcontrol_admin" | "flow_control_administrative" => "flowcontrol".to_owned(),
        "diskcount" | "number_of_disks" => "disk_count".to_owned(),
        "maxraidsize" | "max_raid_size" => "raid_size".to_owned(),
        "raidtype" | "raid_type" => "raid_type".to_owned(),
        "os_type" => "ostype".to_owned(),
        other => other.to_owned(),
    }
}

/// The value of a cell; `-` means that there is no value. Sizes have units.
fn cell_value(name: &str, said: &str) -> Option<Value> {
    match (said, truth(said)) {
        ("" | "-", _) => None,
        (_, Some(yes)) if integer(said).is_none() => Some(Value::Bool(yes)),
        _ if matches!(name, "size" | "used" | "available" | "total") => Some(bytes(said).map_or_else(|| value(said), Value::Int)),
        _ => Some(value(said)),
    }
}

fn nfs(output: &Output, facts: &mut Facts) {
    let mut servers = rows(&output.text, &output.line, facts);
    if servers.len() > 1 {
        facts.remark(format!("{} lists {} servers: the facts are those of the first", output.line, servers.len()));
    }
    servers.truncate(1);
    for (name, said) in servers.into_iter().flatten() {
        if let Some(value) = cell_value(&name, &said) {
            facts.put(&format!("ontap9.nfs.{name}"), value, &output.line);
        }
    }
}

fn put_things(output: &Output, kind: &str, keys: &[&str], facts: &mut Facts) {
    let rows = rows(&output.text, &output.line, facts);
    let of = |row: &[(String, String)], names: &[&str]| {
        row.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, said)| said.clone())
    };
    let nodes: std::collections::BTreeSet<String> = rows.iter().filter_map(|row| of(row, &["node"])).collect();
    for row in rows {
        let Some(name) = of(&row, keys).filter(|name| !name.is_empty()) else { continue };
        // Several nodes may have ports with the same name.
        let name = match of(&row, &["node"]) {
            Some(node) if kind == "ontap_port" && nodes.len() > 1 => format!("{node}:{name}"),
            _ => name,
        };
        for (field, said) in &row {
            if let Some(value) = cell_value(field, said).filter(|_| !keys.contains(&field.as_str()) && !field.is_empty()) {
                facts.put_of(kind, &name, field, value, &output.line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, text: &str) -> Facts {
        let mut collected = Collected::default();
        collected.take_command(line, text.as_bytes(), Some(0));
        let mut found = Facts::default();
        facts(&collected, true, &mut found);
        found
    }

    #[test]
    fn field_listings_give_things() {
        let text = "vserver volume  snapshot-policy atime-update size\n------- ------- --------------- ------------ ----\nsvm1    oradata none            false        10GB\n\
            svm1    root    default         true         1GB\n2 entries were displayed.\n";
        let facts = read("volume show -fields snapshot-policy,atime-update,size", text);
        assert_eq!(facts.value_of("ontap_volume", "oradata", "atime_update"), Some(&false.into()));
        assert_eq!(facts.value_of("ontap_volume", "root", "snapshot_policy"), Some(&"default".into()));
        assert_eq!(facts.value_of("ontap_volume", "oradata", "size"), Some(&(10_i64 << 30).into()));
        assert_eq!(facts.things["ontap_volume"].len(), 2);
    }

    #[test]
    fn long_listings_give_the_same_names() {
        let facts = read(
            "vserver nfs show -instance",
            "              Vserver: svm1\n    NFS v3: enabled\n    NFS v4.1: disabled\n    NFS Mount Root Only: enabled\n",
        );
        assert_eq!(facts.value("ontap9.nfs.v3"), Some(&true.into()));
        assert_eq!(facts.value("ontap9.nfs.v4.1"), Some(&false.into()));
        assert_eq!(facts.value("ontap9.nfs.mount_rootonly"), Some(&true.into()));
    }

    #[test]
    fn cells_beyond_the_line_are_empty() {
        assert_eq!(cell("ab", (5, 9)), "");
        // A column that begins inside a character is moved to the start of that character.
        assert_eq!(cell("\u{e4}\u{f6}\u{fc}", (1, 2)), "\u{e4}");
    }
}
