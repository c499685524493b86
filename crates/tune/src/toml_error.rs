//! Errors of TOML files in one line.

/// What is wrong, after the number of the line if it is known: `line 3: …`. The text of the library
/// has five lines, with the line itself and marks below it.
#[must_use]
pub fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match line_of(text, error) {
        Some(line) => format!("line {line}: {message}"),
        None => message,
    }
}

fn line_of(text: &str, error: &toml::de::Error) -> Option<usize> {
    let before = text.get(..error.span()?.start)?;
    Some(before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_number() {
        let text = "a = 1\nb = [\nc = 2\n";
        let said = in_one_line(text, &text.parse::<toml::Table>().unwrap_err());
        assert!(said.starts_with("line ") && !said.contains('\n'), "{said}");
    }
}
