//! What each key of the configuration file accepts, for errors about its value.

/// A key: its name, what it accepts, and an example of its value.
struct Key(&'static str, &'static str, &'static str);

const SECRET: &str = "secret";

const KEYS: &[Key] = &[
    Key("listen", "a list of addresses with ports", "[\"10.1.0.5:2049\", \"[::1]:2049\"]"),
    Key("portmap", "a list of addresses with ports", "[\"10.1.0.5:111\"]"),
    Key("metrics", "an address with a port", "\"127.0.0.1:9749\""),
    Key("address", "an address with a port", "\"10.1.0.5:3260\""),
    Key("state", "an absolute path", "\"/var/lib/millrace\""),
    Key("admin", "an absolute path", "\"/run/filer.sock\""),
    Key("tls_cert", "an absolute path", "\"/etc/millrace/filer.pem\""),
    Key("tls_key", "an absolute path", "\"/etc/millrace/filer.key\""),
    Key("tls_client_ca", "an absolute path", "\"/etc/millrace/ca.pem\""),
    Key("name", "a name", "\"data\""),
    Key("dir", "an absolute path", "\"/srv/data\""),
    Key("path", "the path that clients mount", "\"/data\""),
    Key("clients", "a list of addresses, networks and host names", "[\"10.1.0.0/16\", \"db.example\"]"),
    Key("access", "\"rw\" or \"ro\"", "\"ro\""),
    Key("squash", "\"root\", \"all\" or \"none\"", "\"none\""),
    Key("anonymous_uid", "a number from 0 to 4294967294", "65534"),
    Key("anonymous_gid", "a number from 0 to 4294967294", "65534"),
    Key("privileged_ports", "true or false", "true"),
    Key("quota", "a size", "\"500GiB\""),
    Key("tls", "\"off\", \"allowed\", \"required\" or \"mutual\"", "\"required\""),
    Key("medium", "a profile, keys, or both", "\"fc15k,spindles=80\""),
    Key("durability", "\"sync\" or \"battery\"", "\"sync\""),
    Key("cache", "\"cached\", \"write-around\", \"direct\" or \"dropbehind\"", "\"direct\""),
    Key("read_ahead", "\"host\" or \"minimal\"", "\"minimal\""),
    Key("exclusive", "true or false", "true"),
    Key("crossmnt", "true or false", "true"),
    Key("faults", "a list of faults", "[\"slow-flush,delay_ms=50\"]"),
    Key("loss_layer", "true or false", "true"),
    Key("loss_seed", "a number from 0", "7"),
    Key("iqn", "the start of target names", "\"iqn.2026-11.org.example\""),
    Key("tag", "a number from 0 to 65535", "1"),
    Key(SECRET, "12 bytes or more", "\"at least 12 bytes\""),
    Key("initiators", "a list of initiator names", "[\"iqn.1993-08.org.debian:01:db1\"]"),
];

/// The key at a byte offset of the text: that of its line, or of the line on which a list begins.
pub(super) fn key_at(text: &str, at: usize) -> Option<&str> {
    let mut end = at + text.get(at..)?.find('\n').unwrap_or(text.len() - at);
    loop {
        let start = text.get(..end)?.rfind('\n').map_or(0, |line_feed| line_feed + 1);
        let line = text.get(start..end)?.trim_start();
        if line.starts_with('[') && !line.starts_with("[\"") {
            return None;
        }
        let name = line.split_once('=').map(|(name, _)| name.trim());
        if let Some(name) = name.filter(|name| known(name).is_some()) {
            return Some(name);
        }
        end = start.checked_sub(1)?;
    }
}

fn known(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.0 == name)
}

/// The parser's message in the words of the file. `key` is the key at the place of the error.
pub(super) fn in_words(message: &str, key: Option<&str>) -> String {
    if let Some((field, expected)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected ")) {
        let nearest = host::nearest(field, expected.split('`').skip(1).step_by(2));
        return nearest.map_or_else(|| message.to_owned(), |near| format!("unknown field `{field}`: did you mean `{near}`?"));
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return match known(field) {
            // Messages redact what follows `secret =`.
            Some(Key(SECRET, accepted, _)) => format!("{message}: add one of {accepted}, in quotes"),
            Some(Key(name, _, example)) => format!("{message}: add {name} = {example}"),
            None => message.to_owned(),
        };
    }
    let message = message.replace('\n', ", ");
    if message.starts_with("key with no value") {
        return format!("{message}: write KEY = VALUE");
    }
    if message == "duplicate key" {
        return match key {
            Some(key) => format!("{key}: duplicate key: remove one of the two lines"),
            None => "this table is defined twice: write each volume as [[volume]], and [filer] and [iscsi] once".to_owned(),
        };
    }
    if message.starts_with("invalid type: map, expected a sequence") {
        return "this table may come several times: write two brackets, as in [[volume]] or [[iscsi.user]]".to_owned();
    }
    let Some(Key(name, accepted, example)) = key.and_then(known) else { return message };
    if *name == SECRET {
        return format!("the value of `{SECRET}` is not a text: write {accepted}, in quotes");
    }
    let found = found(&message).map_or_else(|| format!("not readable ({message})"), |found| format!("{found} is not accepted"));
    format!("{name}: {found}: write {accepted}, as in {name} = {example}")
}

/// The value that the parser could not use, as it shows it.
fn found(message: &str) -> Option<&str> {
    let kinds = ["invalid type: ", "invalid value: ", "unknown variant "];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind))?;
    rest.split_once(", expected").map(|(found, _)| found)
}
