//! The end of a guest's output: a unique line, written after everything that the command wrote.
//!
//! Output and exit code use one stream, so the code cannot overtake the output, and a background process that keeps the
//! stream open does not delay the end.

use std::io::{self, Write};

/// Digits of the exit code and the newline after them.
const CODE_BYTES_MAX: usize = 4;

/// Passes bytes on until the mark, and then returns the exit code.
pub(crate) struct UntilMark {
    mark: Vec<u8>,
    /// Bytes that may be the beginning of the mark.
    held: Vec<u8>,
    code: Option<u8>,
}

impl UntilMark {
    /// Searches for these bytes, which the code and a newline follow.
    pub(crate) fn new(mark: &str) -> Self {
        Self { mark: mark.as_bytes().to_vec(), held: Vec::new(), code: None }
    }

    /// Accepts bytes and writes those that are known to precede the mark. Returns the exit code once the mark is complete; everything
    /// after it is dropped.
    ///
    /// # Errors
    /// The error of `to`.
    pub(crate) fn take(&mut self, bytes: &[u8], to: &mut dyn Write) -> io::Result<Option<u8>> {
        if self.code.is_some() {
            return Ok(self.code);
        }
        self.held.extend_from_slice(bytes);
        let found = self.held.windows(self.mark.len()).position(|window| window == self.mark);
        let safe = found.unwrap_or_else(|| self.held.len() - self.partial());
        to.write_all(&self.held[..safe])?;
        self.held.drain(..safe);
        if found.is_some() {
            self.code = self.read_code();
        }
        Ok(self.code)
    }

    /// Writes the held bytes if the stream ended without a mark.
    ///
    /// # Errors
    /// The error of `to`.
    pub(crate) fn finish(self, to: &mut dyn Write) -> io::Result<()> {
        if self.code.is_none() { to.write_all(&self.held) } else { Ok(()) }
    }

    /// Number of bytes at the end that may be the beginning of the mark.
    fn partial(&self) -> usize {
        let most = self.held.len().min(self.mark.len() - 1);
        (1..=most).rev().find(|count| self.held.ends_with(&self.mark[..*count])).unwrap_or(0)
    }

    fn read_code(&self) -> Option<u8> {
        let behind = self.held.get(self.mark.len()..)?;
        let end = behind.iter().take(CODE_BYTES_MAX).position(|byte| *byte == b'\n')?;
        std::str::from_utf8(&behind[..end]).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_before_the_mark_passes_whole_however_the_stream_is_cut() {
        let stream = b"one\n<<end> <<end <<end:two\0\n<<end:END:17\nbehind";
        for size in 1..stream.len() {
            let (mut until, mut out, mut code) = (UntilMark::new("<<end:END:"), Vec::new(), None);
            for piece in stream.chunks(size) {
                code = until.take(piece, &mut out).unwrap();
            }
            assert_eq!(code, Some(17), "in pieces of {size}");
            until.finish(&mut out).unwrap();
            assert_eq!(out, b"one\n<<end> <<end <<end:two\0\n", "in pieces of {size}");
        }
    }

    #[test]
    fn a_stream_without_a_mark_is_passed_whole() {
        let (mut until, mut out) = (UntilMark::new("<<end:"), Vec::new());
        assert_eq!(until.take(b"half <<en", &mut out).unwrap(), None);
        assert_eq!(out, b"half ");
        until.finish(&mut out).unwrap();
        assert_eq!(out, b"half <<en");
    }

    #[test]
    fn output_is_not_held_back_until_a_line_ends() {
        let (mut until, mut out) = (UntilMark::new("<<end:"), Vec::new());
        until.take(b"password: ", &mut out).unwrap();
        assert_eq!(out, b"password: ");
    }
}
