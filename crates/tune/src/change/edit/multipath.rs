//! Values that multipath.conf already sets. Source: multipath.conf(5).

/// A block of the file.
#[derive(Debug, Default)]
struct Block {
    name: String,
    parent: Option<usize>,
    vendor: Option<String>,
    product: Option<String>,
}

/// The text with a value changed in every section of that name, or removed if the new value is `-`.
/// With a device (vendor and product), only blocks of that device are changed.
///
/// A value is never added. The table that is built into multipath has the values that a device
/// needs, and a value in `defaults` or `devices` overrides that table even after an update brings a
/// better one.
pub(super) fn changed(
    text: &str,
    section: &str,
    device: Option<&(String, String)>,
    key: &str,
    value: &str,
) -> Result<String, String> {
    let (blocks, places) = blocks(text);
    let mut hits = 0;
    let mut out = String::with_capacity(text.len());
    for (line, place) in text.split_inclusive('\n').zip(places) {
        let body = body(line);
        let here = first(body) == key && !has(body, '{') && !has(body, '}') && inside(&blocks, place, section, device);
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

/// The blocks, and for each line the block that contains it.
fn blocks(text: &str) -> (Vec<Block>, Vec<Option<usize>>) {
    let mut blocks: Vec<Block> = Vec::new();
    let mut places = Vec::new();
    let mut open: Option<usize> = None;
    // A section's name may be on the line before its brace.
    let mut named = String::new();
    for line in text.split_inclusive('\n') {
        let body = body(line);
        let word = first(body).trim_matches(['{', '}']);
        if has(body, '{') {
            let name = if word.is_empty() { std::mem::take(&mut named) } else { word.to_owned() };
            blocks.push(Block { name, parent: open, ..Block::default() });
            open = Some(blocks.len() - 1);
        }
        places.push(open);
        if let Some(block) = open.and_then(|open| blocks.get_mut(open)) {
            let value = || Some(body.trim().strip_prefix(word)?.trim().trim_matches('"').to_owned());
            match word {
                "vendor" => block.vendor = value(),
                "product" => block.product = value(),
                _ => {}
            }
        }
        if has(body, '}') {
            open = open.and_then(|open| blocks.get(open)).and_then(|block| block.parent);
        }
        if !word.is_empty() {
            named = word.to_owned();
        }
    }
    (blocks, places)
}

/// Whether a place is inside a section of that name and, if a device is given, inside a block of
/// that device.
fn inside(blocks: &[Block], mut place: Option<usize>, section: &str, device: Option<&(String, String)>) -> bool {
    while let Some(block) = place.and_then(|place| blocks.get(place)) {
        if block.name == section {
            return device.is_none_or(|(vendor, product)| {
                block.vendor.as_ref() == Some(vendor) && block.product.as_ref().is_none_or(|one| one == product)
            });
        }
        place = block.parent;
    }
    false
}

/// A line without its comment.
fn body(line: &str) -> &str {
    outside_quotes(line).find(|(_, sign)| matches!(sign, '#' | '!')).and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

/// Whether a line has a sign outside quotes.
fn has(line: &str, sign: char) -> bool {
    outside_quotes(line).any(|(_, one)| one == sign)
}

/// The signs of a line that are not inside double quotes, with their places.
fn outside_quotes(line: &str) -> impl Iterator<Item = (usize, char)> {
    let mut is_quoted = false;
    line.char_indices().filter(move |(_, sign)| {
        is_quoted ^= *sign == '"';
        !is_quoted
    })
}

fn first(body: &str) -> &str {
    body.split_whitespace().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "defaults {\n\tpath_checker tur\n\tpolling_interval 30 # slow\n}\ndevices {\n device {\n  vendor \"NETAPP\"\n  path_checker readsector0\n }\n}\n";

    #[test]
    fn an_override_goes_or_changes_in_its_section_alone() {
        let after = changed(CONF, "defaults", None, "path_checker", "-").unwrap();
        assert_eq!(after, CONF.replace("\tpath_checker tur\n", ""));
        let after = changed(CONF, "devices", None, "path_checker", "tur").unwrap();
        assert_eq!(after, CONF.replace("readsector0", "tur"));
        let after = changed(CONF, "device", None, "path_checker", "queue 5").unwrap();
        assert_eq!(after, CONF.replace("readsector0", "\"queue 5\""));
    }

    #[test]
    fn a_brace_on_the_next_line_opens_the_section_named_before() {
        let conf = "devices\n{\n device\n {\n  path_checker readsector0\n }\n}\n";
        let after = changed(conf, "device", None, "path_checker", "tur").unwrap();
        assert_eq!(after, conf.replace("readsector0", "tur"));
    }

    #[test]
    fn the_block_of_another_device_stays() {
        let block = |vendor: &str| format!(" device {{\n  vendor \"{vendor}\"\n  product \"LUN\"\n  no_path_retry fail\n }}\n");
        let conf = format!("devices {{\n{}{}}}\n", block("EMC"), block("NETAPP"));
        let device = ("NETAPP".to_owned(), "LUN".to_owned());
        let after = changed(&conf, "device", Some(&device), "no_path_retry", "queue").unwrap();
        assert_eq!(after, format!("devices {{\n{}{}}}\n", block("EMC"), block("NETAPP").replace("fail", "queue")));
        let other = ("IBM".to_owned(), "LUN".to_owned());
        assert!(changed(&conf, "device", Some(&other), "no_path_retry", "queue").is_err());
    }

    #[test]
    fn signs_of_comments_and_blocks_inside_quotes_are_text() {
        let conf = "devices {\n device { # one\n  vendor \"A#1\"\n  product \"^{x!}\"\n  features \"1 # 2\" ! old\n }\n}\n";
        let device = ("A#1".to_owned(), "^{x!}".to_owned());
        let after = changed(conf, "device", Some(&device), "features", "0").unwrap();
        assert_eq!(after, conf.replace("\"1 # 2\" ! old", "0"));
        assert!(changed(conf, "device", Some(&("A".to_owned(), "x".to_owned())), "features", "0").is_err());
    }

    #[test]
    fn a_value_is_never_added() {
        assert!(changed(CONF, "defaults", None, "no_path_retry", "queue").is_err());
        assert_eq!(changed("}}}{{{\n}", "defaults", None, "x", "-").as_deref(), Ok("}}}{{{\n}"));
    }
}
