//! Prints errors for the user: one line that names what could not be done, the object and the
//! cause, then one line for each known fix.
//!
//! Every message that the binary makes itself (a context, a refusal) is a lower-case phrase that
//! completes "cannot", as in `serve /srv/db: no such directory`. This file adds the word itself,
//! also to the causes that are such phrases. Errors of libraries are such phrases, or statements
//! of a cause. A statement without a phrase gets one here.

mod verbs;

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::Write as _;

use anyhow::anyhow;
use clap::error::{ContextKind, ErrorKind};

use verbs::begins_with_a_verb;

/// An error with a known fix.
#[derive(Debug)]
struct Refusal {
    error: anyhow::Error,
    hint: String,
}

impl Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Makes an error with a fix. `phrase` completes "cannot".
pub(crate) fn refusal(phrase: impl Display, hint: impl Into<String>) -> anyhow::Error {
    hinted(anyhow!("{phrase}"), hint)
}

/// Adds a fix to an error. An empty fix adds nothing.
pub(crate) fn hinted(error: anyhow::Error, hint: impl Into<String>) -> anyhow::Error {
    let hint = hint.into();
    if hint.is_empty() { error } else { anyhow!(Refusal { error, hint }) }
}

/// Prints help, or an error in the arguments, and ends the program. The user may have typed a URL
/// with a password, so the parts of the message that the user typed are redacted.
pub(crate) fn exit_with(error: &clap::Error) -> ! {
    let text = error.to_string();
    let shown =
        typed_parts(error).iter().fold(text.clone(), |shown, part| shown.replace(part, &tune::collect::redacted("", part)));
    if shown == text {
        // Prints help to stdout, errors to stderr.
        let printed = error.print();
        if !error.use_stderr() {
            let flushed = printed.and_then(|()| std::io::stdout().flush());
            std::process::exit(flushed.map_or_else(crate::closed_output::code_of_output, |()| 0).into());
        }
    } else {
        eprint!("{shown}");
    }
    if error.kind() == ErrorKind::ArgumentConflict && text.contains("'--config <FILE>'") {
        eprintln!("hint: with --config the file has this setting, in [filer] or [[volume]]");
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && text.contains("--print <FORMAT>") {
        eprintln!(
            "hint: --user and --image are for what --print prints, a service or a container; to run as another user: runuser -u NAME -- \
                   millrace exec …"
        );
    }
    std::process::exit(error.exit_code());
}

/// The parts of a clap message that quote the command line. All other parts are text of help pages.
fn typed_parts(error: &clap::Error) -> Vec<String> {
    let typed = |kind| match kind {
        ContextKind::InvalidValue | ContextKind::InvalidSubcommand => true,
        // In messages about a value, this is the option as help shows it.
        ContextKind::InvalidArg => error.kind() == ErrorKind::UnknownArgument,
        _ => false,
    };
    let quoted = error.context().filter(|(kind, _)| typed(*kind)).map(|(_, value)| value.to_string());
    quoted.chain(std::error::Error::source(error).map(ToString::to_string)).filter(|part| !part.is_empty()).collect()
}

/// Prints `millrace: cannot` with the error and its causes, then the hints. No secret is printed, whatever the error quotes.
pub(crate) fn print_error(error: &anyhow::Error) {
    let text = redacted_text(error);
    eprintln!("millrace: cannot {}{text}", if completes_cannot(error) { "" } else { "go on: " });
    for hint in hints(error) {
        eprintln!("hint: {hint}");
    }
}

/// Logs an error, with its hints, as one event.
pub(crate) fn log_error(error: &anyhow::Error) {
    tracing::error!(error = redacted_text(error), hints = hints(error).join("; "), "the program cannot continue");
}

/// Whether the outermost message is a phrase: one of the binary's own, or of a library whose errors are phrases.
fn completes_cannot(error: &anyhow::Error) -> bool {
    // The context is checked first, because anyhow also finds a refusal below it.
    if error.is::<String>() || error.is::<&'static str>() {
        return true;
    }
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => completes_cannot(&refusal.error),
        None => {
            let known = error.is::<lab::LabError>() || error.is::<filer::config::ConfigError>();
            known || begins_with_a_verb(&error.to_string())
        }
    }
}

/// The error and its causes in one line. An error often ends with the text of its cause, so each
/// text appears once. The first text completes a "cannot" that the caller prints; each cause that
/// names an attempt has its own, as in `run the load: cannot write the record x: no space left`.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let phrase = as_cause(&cause);
        match text.strip_suffix(&cause) {
            Some(before) if before.ends_with(": ") => text = format!("{before}{phrase}"),
            Some(_) => {}
            None => text = format!("{text}: {phrase}"),
        }
    }
    text
}

/// A text as it stands after a colon: with "cannot" if it names an attempt.
pub(crate) fn as_cause(text: &str) -> Cow<'_, str> {
    if begins_with_a_verb(text) { Cow::Owned(format!("cannot {text}")) } else { Cow::Borrowed(text) }
}

/// The text without secrets. Redaction begins again after each path: in `serve /etc/passwd: not a
/// directory`, the path is followed by a cause, not by the value of a key.
fn redacted_text(error: &anyhow::Error) -> String {
    after_paths(&text(error)).into_iter().map(|piece| tune::collect::redacted("", piece)).collect()
}

/// A text, cut after each absolute path that a colon follows.
fn after_paths(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(colon) = rest[from..].find(": ").map(|found| from + found) {
        from = colon + 2;
        if rest[..colon].rsplit(' ').next().is_some_and(|word| word.starts_with('/')) {
            let (piece, after) = rest.split_at(from);
            pieces.push(piece);
            (rest, from) = (after, 0);
        }
    }
    pieces.push(rest);
    pieces
}

/// The known fixes of the error and of its causes.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    // Whatever a command says about the names of its files, they are not the cause.
    let full = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).find_map(of_full_disk);
    if let Some(hint) = full {
        return vec![hint.to_owned()];
    }
    for cause in error.chain() {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            hints.push(refusal.hint.clone());
        } else if let Some(client) = cause.downcast_ref::<dnfs::Error>() {
            hints.extend(client.hints());
        } else if let Some(url) = cause.downcast_ref::<dnfs::UrlError>() {
            hints.extend(url.hint());
        } else if let Some(mount) = cause.downcast_ref::<fuse_mount::MountError>() {
            hints.extend(mount.hint());
        } else if let Some(spec) = cause.downcast_ref::<dnfs::mount::SpecError>() {
            hints.extend(spec.hint());
        } else if let Some(orders) = cause.downcast_ref::<orders::error::OrdersError>() {
            hints.extend(orders.hint());
        } else if let Some(kernel) = cause.downcast_ref::<initiator::kernel::KernelError>() {
            hints.extend(kernel.hint());
        } else if let Some(portal) = cause.downcast_ref::<initiator::Error>() {
            hints.extend(portal.hint());
        } else if let Some(lab) = cause.downcast_ref::<lab::LabError>() {
            hints.extend(lab.hint().map(str::to_owned));
        } else if let Some(config) = cause.downcast_ref::<filer::config::ConfigError>() {
            hints.extend(config.hint());
        } else if let Some(change) = cause.downcast_ref::<tune::change::ChangeError>() {
            hints.extend(change.hint());
        }
    }
    // A cause may come twice in a chain, once as part of what wraps it.
    hints.dedup();
    hints
}

/// The fix for a file system without space, or a user without.
fn of_full_disk(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        std::io::ErrorKind::StorageFull => {
            Some("free space on the file system of the file (df shows it), or name a file on another one")
        }
        std::io::ErrorKind::QuotaExceeded => {
            Some("free space of this user there (quota shows the limit), or name a file on another file system")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn of_a_full_disk_the_fix_is_space_and_not_another_name() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = hinted(anyhow::Error::new(full).context("write x"), "name another directory");
        assert!(matches!(hints(&error).as_slice(), [hint] if hint.starts_with("free space")), "{:?}", hints(&error));
        let missing = std::io::Error::from_raw_os_error(2);
        let error = hinted(anyhow::Error::new(missing).context("write x"), "name another directory");
        assert_eq!(hints(&error), ["name another directory"]);
    }

    #[test]
    fn a_hint_is_found_below_context_and_a_text_comes_once() {
        let refused: anyhow::Result<()> = Err(refusal("no such directory", "mkdir -p /srv/db"));
        let error = refused.context("serve /srv/db").unwrap_err();
        assert_eq!(text(&error), "serve /srv/db: no such directory");
        assert!(completes_cannot(&error));
        assert_eq!(hints(&error), ["mkdir -p /srv/db"]);
    }

    #[test]
    fn each_cause_that_names_an_attempt_has_its_own_cannot() {
        let full = || anyhow::Error::new(std::io::Error::from_raw_os_error(28));
        let written = full().context("write the record x").context("run the load");
        assert_eq!(text(&written), "run the load: cannot write the record x: No space left on device (os error 28)");
        let quoted = full().context("serve vol: open x: No space left on device (os error 28)");
        assert_eq!(
            text(&quoted),
            "serve vol: open x: No space left on device (os error 28)",
            "the error has its cause in its text"
        );
        let quoted = full().context("open x").context("serve vol: open x").context("start");
        assert_eq!(text(&quoted), "start: cannot serve vol: cannot open x: No space left on device (os error 28)");
        let statement = anyhow!("name too long").context("descriptor 7 is closed").context("use it");
        assert_eq!(text(&statement), "use it: descriptor 7 is closed: name too long");
        assert!(completes_cannot(&anyhow!("read x".to_owned())));
    }

    #[test]
    fn a_path_that_is_named_like_a_secret_does_not_hide_the_cause() {
        let missing = || anyhow!(std::io::Error::from(std::io::ErrorKind::NotFound));
        let context = missing().context("read /etc/ssl/private-key.pem").context("serve under TLS");
        assert_eq!(redacted_text(&context), "serve under TLS: cannot read /etc/ssl/private-key.pem: entity not found");
        let one = anyhow!("serve /etc/passwd: not a directory; token: hunter2");
        assert_eq!(redacted_text(&one), "serve /etc/passwd: not a directory; token: [redacted]");
        let error = missing().context("read /run/token: entity not found");
        assert_eq!(redacted_text(&error), "read /run/token: entity not found", "the error repeats its cause");
        let configuration = anyhow!("password missing").context("invalid configuration").context("check the database");
        assert_eq!(redacted_text(&configuration), "check the database: invalid configuration: password missing");
        let secret = missing().context("use password=hunter2");
        assert_eq!(redacted_text(&secret), "use password=[redacted] entity not found");
    }

    #[test]
    fn a_cause_without_a_phrase_is_known_as_such() {
        let bare = anyhow!("http://x".parse::<dnfs::NfsUrl>().unwrap_err());
        assert!(!completes_cannot(&bare) && !completes_cannot(&hinted(bare, "as in nfs://filer/vol")));
        let hinted_below = hinted(anyhow!("http://x".parse::<dnfs::NfsUrl>().unwrap_err()), "as in nfs://filer/vol");
        assert!(completes_cannot(&hinted_below.context("list it")));
        assert!(completes_cannot(&refusal("serve /srv/db: no such directory", "mkdir /srv/db")));
    }

    #[test]
    fn the_hints_of_a_library_survive_a_refusal_around_it() {
        let url = "http://x".parse::<dnfs::NfsUrl>().unwrap_err();
        let error = anyhow!(url).context("list");
        assert!(completes_cannot(&error));
        assert!(hints(&error).iter().any(|hint| hint.contains("nfs://")), "{error:?}");
    }
}
