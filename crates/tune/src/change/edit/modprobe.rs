//! Parameters in a file of modprobe.d(5): `options MODULE NAME=VALUE…`. A backslash at the end continues a line, also a comment.

use std::ops::Range;

/// The bytes of the last word that sets a parameter, as `MODULE.NAME` in the normal form of `normal`; `None` if no word sets it.
pub(super) fn last_word(text: &str, key: &str, normal: impl Fn(&str) -> String) -> Option<Range<usize>> {
    let mut found = None;
    for line in lines(text) {
        let words = words(text, line);
        let of = |index: usize| words.get(index).and_then(|word| text.get(word.clone()));
        let (Some("options"), Some(module)) = (of(0), of(1)) else { continue };
        for word in words.iter().skip(2) {
            let parameter = text.get(word.clone()).unwrap_or_default().split('=').next().unwrap_or_default();
            if normal(&format!("{module}.{parameter}")) == key {
                found = Some(word.clone());
            }
        }
    }
    found
}

/// The lines, each with those that continue it.
fn lines(text: &str) -> Vec<Range<usize>> {
    let (mut lines, mut begin, mut end) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        end += line.len();
        if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
            lines.push(begin..end);
            begin = end;
        }
    }
    if begin < end {
        lines.push(begin..end);
    }
    lines
}

/// The words of a line. Blanks inside double quotes separate none; nor do the backslashes that continue the line belong to one.
fn words(text: &str, line: Range<usize>) -> Vec<Range<usize>> {
    let (mut words, mut begin, mut is_quoted) = (Vec::new(), None, false);
    let bytes = text.as_bytes().get(line.clone()).unwrap_or_default();
    for (at, byte) in bytes.iter().enumerate() {
        let continues = *byte == b'\\' && matches!(bytes.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..] | []));
        if *byte == b'"' {
            is_quoted = !is_quoted;
        }
        if continues || (byte.is_ascii_whitespace() && !is_quoted) {
            words.extend(begin.take().map(|begin| begin..line.start + at));
        } else if begin.is_none() {
            begin = Some(line.start + at);
        }
    }
    words.extend(begin.map(|begin| begin..line.end));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_a_parameter_is_found_among_others_and_in_continued_lines() {
        let normal = |key: &str| key.replace('-', "_");
        let found = |text: &str| last_word(text, "scsi_mod.scan", normal).map(|word| text[word].to_owned());
        assert_eq!(found("options scsi_mod scan=sync\noptions scsi-mod a=1 scan=async b=2\n").unwrap(), "scan=async");
        assert_eq!(found("options scsi_mod a=\"x scan=no\" \\\n  scan=sync").unwrap(), "scan=sync");
        assert_eq!(found("options scsi_mod scan\\\r\n").unwrap(), "scan");
        for other in [
            "# options scsi_mod \\\noptions scsi_mod scan=sync\n",
            "options scsi scan=sync\n",
            "install scsi_mod scan=sync\noptions scsi_mod rescan=1 a=\"scan=2\"\n",
            "options\n",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
