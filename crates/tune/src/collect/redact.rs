//! Removes secrets from every text of a host before a parser reads it. So facts, findings, remarks
//! and captures contain only redacted texts.
//!
//! An allow-list decides. For each kind of text, [`form`] says which values rules and parsers read:
//! values of known keys, known mount options, amounts. Every other value is replaced by
//! [`REDACTED`], and every comment is removed. Text of the kernel, and of tools that print no
//! configuration, is kept except for what [`words`] finds. Except for the JSON of SET PERSIST, the
//! number of lines does not change, so findings name the right line.

mod form;
mod keys;
mod options;
mod settings;
mod state;
mod words;

use form::Form;
pub use state::REDACTED;
use state::State;

/// A text without its secrets. `origin` is its file (an absolute path) or its command line.
#[must_use]
pub fn redacted(origin: &str, text: &str) -> String {
    let form = Form::of(origin, text);
    if matches!(form, Form::Persisted) {
        return settings::persisted(text);
    }
    let mut state = State::default();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let (body, end) = body.strip_suffix('\r').map_or((body, end), |body| (body, if end.is_empty() { "\r" } else { "\r\n" }));
        out.push_str(&words::redacted_line(&form.line(body, &mut state)));
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests;
