//! The log of acknowledged orders: one line `w d o_id` per New-Order whose commit was
//! acknowledged. These orders must survive any crash of the database or of its storage.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::OrdersError;
use crate::limits::ACK_LOG_BYTES_MAX;
use crate::random::DISTRICTS;

/// An order that the database acknowledged to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct AcknowledgedOrder {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// O_ID.
    pub order: u32,
}

/// The log in errors of a check.
pub(crate) const TO_CHECK: &str = "read the acknowledgement log";
/// The log in errors of a run.
pub(crate) const TO_WRITE: &str = "write the acknowledgement log";

/// Appends acknowledged orders.
#[derive(Debug)]
pub struct AckLog {
    file: File,
    path: PathBuf,
}

impl AckLog {
    /// Opens or creates the log. Lines are appended.
    ///
    /// # Errors
    /// [`OrdersError::File`].
    pub fn open(path: &Path) -> Result<Self, OrdersError> {
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|source| file_error(path, source))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends one order. Call it only after its commit was acknowledged.
    ///
    /// **Durability**: the line is in the kernel's page cache when this returns (one `write` in append mode, so
    /// threads need no lock). It survives a crash of the driver, but not of the host.
    ///
    /// # Errors
    /// [`OrdersError::File`].
    pub fn append(&self, order: AcknowledgedOrder) -> Result<(), OrdersError> {
        let line = format!("{} {} {}\n", order.warehouse, order.district, order.order);
        (&self.file).write_all(line.as_bytes()).map_err(|source| file_error(&self.path, source))
    }
}

/// Contents of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckLogContents {
    /// All complete lines, in order.
    pub orders: Vec<AcknowledgedOrder>,
    /// Whether the last line was incomplete and left out.
    pub cut_short: bool,
}

/// Reads a log.
///
/// # Errors
/// [`OrdersError::File`] if the log cannot be read or exceeds the size limit,
/// [`OrdersError::AckLine`] if a complete line is not three numbers in their ranges.
pub fn read(path: &Path) -> Result<AckLogContents, OrdersError> {
    let unread = |source| OrdersError::File { what: TO_CHECK, path: path.to_owned(), source };
    let file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    if length > ACK_LOG_BYTES_MAX {
        return Err(OrdersError::OutOfRange {
            name: "bytes of the acknowledgement log",
            value: length,
            min: 0,
            max: ACK_LOG_BYTES_MAX,
        });
    }
    let mut contents = AckLogContents { orders: Vec::new(), cut_short: false };
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        // Three 32-bit numbers fit into 64 bytes; a longer line is not from this log.
        let mut limited = std::io::Read::take(&mut reader, 64);
        let taken = limited.read_until(b'\n', &mut text).map_err(unread)?;
        if taken == 0 {
            break;
        }
        if text.last() != Some(&b'\n') && taken < 64 {
            contents.cut_short = true;
            break;
        }
        let Some(order) = parse(&text) else {
            return Err(OrdersError::AckLine { path: path.to_owned(), line });
        };
        contents.orders.push(order);
    }
    Ok(contents)
}

fn parse(line: &[u8]) -> Option<AcknowledgedOrder> {
    let text = std::str::from_utf8(line).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u32>().ok());
    let order = AcknowledgedOrder { warehouse: numbers.next()??, district: numbers.next()??, order: numbers.next()?? };
    let in_range = order.warehouse >= 1
        && (1..=DISTRICTS).contains(&order.district)
        && [order.warehouse, order.order].iter().all(|number| i32::try_from(*number).is_ok());
    (in_range && numbers.next().is_none()).then_some(order)
}

fn file_error(path: &Path, source: std::io::Error) -> OrdersError {
    OrdersError::File { what: TO_WRITE, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("millrace-acklog-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    const ORDER: AcknowledgedOrder = AcknowledgedOrder { warehouse: 12, district: 10, order: 3001 };

    #[test]
    fn what_is_appended_reads_back_and_a_second_log_goes_on_at_the_end() {
        let path = Scratch::new("append");
        AckLog::open(&path.0).unwrap().append(ORDER).unwrap();
        AckLog::open(&path.0).unwrap().append(ORDER).unwrap();
        assert_eq!(std::fs::read_to_string(&path.0).unwrap(), "12 10 3001\n12 10 3001\n");
        assert_eq!(read(&path.0).unwrap().orders, [ORDER, ORDER]);
    }

    #[test]
    fn a_last_line_cut_short_is_left_out_and_told() {
        let path = Scratch::new("cut");
        std::fs::write(&path.0, "12 10 3001\n12 10 30").unwrap();
        let contents = read(&path.0).unwrap();
        assert_eq!((contents.orders, contents.cut_short), (vec![ORDER], true));
    }

    #[test]
    fn lines_that_are_no_orders_are_errors_with_their_number() {
        for bad in ["1 2", "1 2 3 4", "0 1 1", "1 11 1", "1 1 4294967295", "a b c", "", &"7".repeat(70)] {
            let path = Scratch::new("bad");
            std::fs::write(&path.0, format!("12 10 3001\n{bad}\n")).unwrap();
            let outcome = read(&path.0);
            assert!(matches!(outcome, Err(OrdersError::AckLine { line: 2, .. })), "{bad:?}");
        }
    }
}
