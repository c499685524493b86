//! Names of storage paths and of databases in the laboratory: product code outside a path's or a database's own files does not know
//! them, so that a new one is added without a change of judge, report, plan or prediction. The names are those of the registries.

use std::path::Path;

use lab::DatabaseKind;
use syn::buffer::Cursor;
use syn::parse::{ParseStream, Parser as _};

use crate::modules::Modules;
use crate::tree::{read, report, root};

/// Files that may have all names: the registries, and the catalogue of what published reports found about certain paths.
const ALLOWED: [&str; 3] = ["paths.rs", "database.rs", "shapes/checks.rs"];
/// Names of paths that are also words: only as the name of a path, `local:NAME` or `local=TARGET`.
const WORDS: [&str; 2] = ["local", "block"];
/// Other names of databases and of their parts.
const OF_DATABASES: [&str; 3] = ["postgres", "mysql", "innodb"];

/// The names that a file must not have.
#[derive(Default)]
struct Names {
    /// Names of paths, as written on the command line.
    paths: Vec<&'static str>,
    /// In lower case, anywhere in a text or an identifier: titles, and names of databases.
    others: Vec<String>,
}

impl Names {
    /// Those that a file below `src/` of the laboratory must not have.
    fn refused_in(file: &Path) -> Self {
        let mut names = Self::default();
        let inside = |folder: &str| file.strip_prefix(folder).ok()?.iter().next()?.to_str()?.split('.').next();
        let titles = |title: &str| title.contains(char::is_uppercase).then(|| title.to_lowercase());
        if !inside("paths").is_some_and(|own| lab::path_titles().any(|(name, _)| name == own)) {
            names.paths.extend(lab::path_titles().map(|(name, _)| name));
            names.others.extend(lab::path_titles().filter_map(|(_, title)| titles(title)));
        }
        if !inside("database").is_some_and(|own| DatabaseKind::all().any(|kind| kind.name().starts_with(own))) {
            names.others.extend(DatabaseKind::all().map(|kind| kind.name().to_lowercase()));
            names.others.extend(OF_DATABASES.map(str::to_owned));
        }
        names
    }

    fn in_text(&self, text: &str) -> bool {
        // The kernel's files have the names of protocols, not of storage paths.
        let is_of_kernel = ["/sys/", "/proc/"].iter().any(|place| text.starts_with(place));
        let lower = text.to_lowercase();
        self.others.iter().any(|name| lower.contains(name))
            || !is_of_kernel && self.paths.iter().any(|name| names_path(text, name))
    }

    /// Whether an identifier has one of the names. `before` and `after` tell whether it is a part of a path in the code.
    fn in_identifier(&self, identifier: &str, before: &str, after: &str) -> bool {
        // A crate of that name is not the storage path.
        let is_crate = after == "::" && before != "::";
        let lower = identifier.to_lowercase();
        let is_path = |name: &&str| {
            if WORDS.contains(name) {
                let is_module = identifier == *name && (before == "mod" || before == "::" || after == "::");
                return is_module || identifier.starts_with(char::is_uppercase) && lower == *name;
            }
            let part = |part: &str| part == *name || name.len() > 2 && part.contains(*name);
            lower.split('_').any(part)
        };
        !is_crate && (self.others.iter().any(|name| lower.contains(name)) || self.paths.iter().any(is_path))
    }
}

/// Whether a text has the name of a path as a word of its own; a name that is also a word, only in the form of the command line.
fn names_path(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_word = !before.ends_with(|c: char| c.is_alphanumeric()) && !after.starts_with(|c: char| c.is_alphanumeric());
        let is_option = before.ends_with("path ") || after.starts_with('=') || after.starts_with(':') && !after.starts_with(": ");
        is_word && (!WORDS.contains(&name) || text == name || is_option)
    })
}

/// The texts and identifiers of product code with a refused name.
fn found(names: &Names, mut rest: Cursor<'_>, faults: &mut Vec<String>) {
    let (mut before, mut before_last) = (String::new(), String::new());
    while !rest.eof() {
        if let Some(next) = after_tests_and_pages(rest) {
            rest = next;
            continue;
        }
        let Some((_, next)) = rest.token_tree() else { return };
        if let Some((inner, _, _, _)) = rest.any_group() {
            found(names, inner, faults);
        }
        let mut word = rest.punct().map_or_else(String::new, |(punct, _)| punct.as_char().to_string());
        if let Some((identifier, after)) = rest.ident() {
            word = identifier.to_string();
            let after = if after_colon(after).and_then(after_colon).is_some() { "::" } else { "" };
            let before = if before == ":" && before_last == ":" { "::" } else { before.as_str() };
            if names.in_identifier(&word, before, after) {
                faults.push(word.clone());
            }
        }
        let text = rest.literal().and_then(|(literal, _)| syn::parse_str::<syn::LitStr>(&literal.to_string()).ok());
        faults.extend(text.map(|text| text.value()).filter(|text| names.in_text(text)));
        (before_last, before, rest) = (before, word, next);
    }
}

fn after_colon(here: Cursor<'_>) -> Option<Cursor<'_>> {
    here.punct().filter(|(punct, _)| punct.as_char() == ':').map(|(_, next)| next)
}

/// What follows a documentation comment, or an item or element of tests, if that comes here.
fn after_tests_and_pages(here: Cursor<'_>) -> Option<Cursor<'_>> {
    let (_, mark) = here.punct().filter(|(punct, _)| punct.as_char() == '#')?;
    let bracket = mark.punct().map_or(mark, |(_, bracket)| bracket);
    let (inner, _, _, mut rest) = bracket.any_group()?;
    let (attribute, within) = inner.ident()?;
    if attribute == "doc" {
        return Some(rest);
    }
    let (condition, _, _, _) = within.any_group().filter(|_| attribute == "cfg")?;
    condition.ident().filter(|(condition, after)| condition == "test" && after.eof())?;
    while !rest.eof() {
        let is_end = rest.punct().is_some_and(|(punct, _)| [';', ','].contains(&punct.as_char()));
        let is_body = rest.any_group().is_some_and(|(_, delimiter, _, _)| format!("{delimiter:?}") == "Brace");
        rest = rest.token_tree()?.1;
        if is_end || is_body {
            break;
        }
    }
    Some(rest)
}

fn faults_in(names: &Names, code: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let walk = |input: ParseStream<'_>| {
        found(names, input.cursor(), &mut faults);
        input.step(|cursor| {
            let mut rest = *cursor;
            while let Some((_, next)) = rest.token_tree() {
                rest = next;
            }
            Ok(((), rest))
        })
    };
    walk.parse_str(code).unwrap_or_else(|error| panic!("cannot parse: {error}"));
    faults
}

#[test]
fn paths_and_databases_of_the_laboratory_are_named_only_in_their_own_files() {
    let source = root().join("crates/lab/src");
    let modules = Modules::of(&source.join("lib.rs"));
    let mut faults = Vec::new();
    for file in modules.files() {
        let inside = file.strip_prefix(&source).unwrap();
        if ALLOWED.iter().any(|allowed| inside == Path::new(allowed)) {
            continue;
        }
        let named = faults_in(&Names::refused_in(inside), &read(file));
        faults.extend(named.into_iter().map(|name| format!("{}: {name}", inside.display())));
    }
    report("names of paths and databases in product code of lab; a method of the trait answers instead of the name", &faults);
}

#[test]
fn a_name_is_found_as_text_and_as_identifier_and_not_in_tests_or_as_a_word() {
    let names = Names::refused_in(Path::new("judge.rs"));
    let refused = [
        "fn f() { g(\"tuning dnfs.slots\") }",
        "mod local;",
        "fn f() { paths::local::Local }",
        "static A: &str = \"--path local:a\";",
        "fn f(x: Kind) { if x == Kind::MariaDb {} }",
        "const A: [&str; 1] = [\"kernel NFS has slots\"];",
        "#[error(\"only with PostgreSQL\")] struct A;",
        "struct A { fc_depth: u32 }",
    ];
    for code in refused {
        assert!(!faults_in(&names, code).is_empty(), "{code}");
    }
    let allowed = [
        "use dnfs::NfsUrl; fn f() -> dnfs::Error { tokio_postgres::connect() }",
        "/// As dnfs on PostgreSQL.\nfn f(local: u32) { local.port(); \"a block read of fc15k, not local: slow\" }",
        "const A: &str = \"/sys/class/iscsi_session\";",
        "#[cfg(test)] mod tests { fn f() { \"dnfs\" } }",
        "static ALL: &[A] = &[&A, #[cfg(test)] &dnfs::B, &C];",
    ];
    for code in allowed {
        assert!(faults_in(&names, code).is_empty(), "{code}: {:?}", faults_in(&names, code));
    }
    assert!(faults_in(&Names::refused_in(Path::new("paths/knfs/storage.rs")), "fn f() { \"dnfs\" }").is_empty());
    assert!(!faults_in(&Names::refused_in(Path::new("paths/storage.rs")), "fn f() { \"dnfs\" }").is_empty());
}
