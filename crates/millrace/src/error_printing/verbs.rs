//! The verbs that begin a message of what was attempted: `write the record X` completes "cannot",
//! `no space left` does not.
//!
//! Millrace prints the word "cannot" before such a message, wherever in a chain of causes it is.
//! A message that states a cause must not begin with one of these words. The tests of the tree
//! (`tidy`) check both in the sources.

/// The verbs, sorted. A word that is also the first of a statement (`name too long`, `access
/// denied`) is not in the list: such a message is worded with another verb.
const VERBS: &[&str] = &[
    "add", "apply", "ask", "attach", "begin", "boot", "change", "check", "combine", "commit", "compare", "complete", "connect",
    "copy", "count", "create", "detach", "discover", "drop", "find", "finish", "flush", "give", "go", "init", "inspect", "keep",
    "learn", "list", "listen", "load", "lock", "look", "make", "measure", "mount", "move", "open", "parse", "predict", "prepare",
    "print", "quiesce", "reach", "read", "receive", "reload", "remove", "replace", "report", "restore", "resume", "revert",
    "run", "send", "serve", "set", "share", "start", "sync", "take", "transfer", "try", "unmount", "unpack", "use", "wait",
    "write",
];

/// Whether a message begins with a verb and an object, so that "cannot" belongs before it.
pub(crate) fn begins_with_a_verb(message: &str) -> bool {
    message.split_once(' ').is_some_and(|(first, _)| VERBS.binary_search(&first).is_ok())
}
