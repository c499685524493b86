//! The syntax of `multipath.conf` as libmultipath reads it. A line has a keyword and a value. The
//! name of a section opens it, and `}` closes it. Text after a value on the same line is ignored.

use crate::collect::text::{lines, odd};
use crate::facts::Facts;

/// A value, or the end of a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// The sections around it, the outermost first. For an end, the last one is the section that
    /// ends.
    pub(super) sections: Vec<&'a str>,
    /// Keyword and value, without quotes. `None` at the end of a section.
    pub(super) entry: Option<(&'a str, String)>,
    /// The file and line.
    pub(super) origin: String,
}

/// Pairs of a section's parent and its name. An empty parent is the top level.
const SECTIONS: &[(&str, &str)] = &[
    ("", "blacklist"),
    ("", "blacklist_exceptions"),
    ("", "defaults"),
    ("", "devices"),
    ("", "multipaths"),
    ("", "overrides"),
    ("blacklist", "device"),
    ("blacklist_exceptions", "device"),
    ("devices", "device"),
    ("multipaths", "multipath"),
    ("overrides", "protocol"),
];

/// All values and ends of sections. A line that is neither gets a remark.
pub(super) fn items<'a>(text: &'a str, path: &str, facts: &mut Facts) -> Vec<Item<'a>> {
    let mut found = Vec::new();
    let mut open: Vec<&'a str> = Vec::new();
    for (number, line) in lines(text) {
        let line = line.trim();
        let origin = format!("{path}:{number}");
        let (keyword, rest) = line.split_at(line.find(is_end).unwrap_or(line.len()));
        if line.starts_with('}') {
            if !open.is_empty() {
                found.push(Item { sections: open.clone(), entry: None, origin });
                open.pop();
            }
            continue;
        }
        // An empty line, a comment, or the opening brace of a section.
        if keyword.is_empty() {
            continue;
        }
        let within = open.last().copied().unwrap_or_default();
        // Without the brace on the same line, libmultipath expects a value for these two and
        // ignores them.
        let is_open = !matches!(keyword, "overrides" | "protocol") || !rest.trim().is_empty();
        if is_open && SECTIONS.contains(&(within, keyword)) {
            open.push(keyword);
            continue;
        }
        match value(rest.trim_start()) {
            Some(said) if !open.is_empty() => found.push(Item { sections: open.clone(), entry: Some((keyword, said)), origin }),
            _ => odd(facts, path, number, line),
        }
    }
    if !open.is_empty() {
        facts.remark(format!("{path} ends inside {}", open.join(" ")));
    }
    found
}

fn is_end(letter: char) -> bool {
    letter.is_whitespace() || "{}\"#!".contains(letter)
}

/// A value: a word, or a text in quotes. A doubled quote in the text means one.
fn value(rest: &str) -> Option<String> {
    let Some(inner) = rest.strip_prefix('"') else {
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        return (!word.is_empty()).then(|| word.to_owned());
    };
    let mut said = String::new();
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '"' {
            said.push(letter);
        } else if letters.next_if_eq(&'"').is_some() {
            said.push('"');
        } else {
            return Some(said);
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_with_its_quote_and_braces_stand_anywhere() {
        let text = "defaults\n{\n a \"b c\" # \"d\"\n}\ndevices {\n\tdevice {\n e f#g\n h \"i\"\"j\"\n }\n}\n}\nodd 1\n";
        let mut facts = Facts::default();
        let found = items(text, "f", &mut facts);
        let entries: Vec<String> =
            found.iter().filter_map(|item| item.entry.as_ref()).map(|(key, said)| format!("{key}={said}")).collect();
        assert_eq!(entries, ["a=b c", "e=f", "h=i\"j"]);
        assert_eq!(found.iter().filter(|item| item.entry.is_none()).count(), 3);
        assert_eq!(facts.remarks.len(), 1);
    }
}
