//! Values of multipath.conf that somebody set. Source: multipath.conf(5).

/// The text with a value changed, or taken away with `-`, wherever it stands in a section of that name.
///
/// A value is never added: what a device needs stands in the table that multipath is built with, and a value of one's own
/// in `defaults` or `devices` outlives every better one of that table.
pub(super) fn changed(text: &str, section: &str, key: &str, value: &str) -> Result<String, String> {
    let mut inside: Vec<String> = Vec::new();
    let mut hits = 0;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.split(['#', '!']).next().unwrap_or("");
        let mut words = body.split_whitespace();
        let first = words.next().unwrap_or("").trim_end_matches('{').to_owned();
        let here = first == key && inside.iter().any(|name| name == section) && !body.contains(['{', '}']);
        if body.contains('{') {
            inside.push(first);
        }
        if body.contains('}') {
            inside.pop();
        }
        if !here {
            out.push_str(line);
            continue;
        }
        hits += 1;
        if value != "-" {
            let indent: String = line.chars().take_while(|sign| sign.is_whitespace()).collect();
            let shown = if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() };
            out.push_str(&format!("{indent}{key} {shown}{}", super::ending(line)));
        }
    }
    if hits == 0 && value != "-" {
        Err(format!("section {section} sets no {key}, and a value is never added there"))
    } else {
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "defaults {\n\tpath_checker tur\n\tpolling_interval 30 # slow\n}\ndevices {\n device {\n  vendor \"NETAPP\"\n  path_checker readsector0\n }\n}\n";

    #[test]
    fn an_override_goes_or_changes_in_its_section_alone() {
        let after = changed(CONF, "defaults", "path_checker", "-").unwrap();
        assert_eq!(after, CONF.replace("\tpath_checker tur\n", ""));
        let after = changed(CONF, "devices", "path_checker", "tur").unwrap();
        assert_eq!(after, CONF.replace("readsector0", "tur"));
        let after = changed(CONF, "device", "path_checker", "queue 5").unwrap();
        assert_eq!(after, CONF.replace("readsector0", "\"queue 5\""));
    }

    #[test]
    fn a_value_is_never_added() {
        assert!(changed(CONF, "defaults", "no_path_retry", "queue").is_err());
        assert_eq!(changed("}}}{{{\n}", "defaults", "x", "-").as_deref(), Ok("}}}{{{\n}"));
    }
}
