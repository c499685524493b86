//! COPY in the binary format: generates rows directly as wire bytes.

use std::pin::pin;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;

use crate::database::{Config, Copier};
use crate::error::OrdersError;
use crate::limits::COPY_CHUNK_BYTES;
use crate::rows::{RowSink, RowSource};
use crate::tables::Unit;

use super::{Session, nodes, schema, sql};

/// Header of the binary COPY format: signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Seconds from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
const EPOCH_OFFSET_S: i64 = 946_684_800;
/// Entities generated between two checks of the chunk's size; the largest row is about 1 KiB.
const STEPS_AT_ONCE: u32 = 32;

/// A session that loads rows and builds indexes, on each server that stores a share of them.
#[derive(Debug)]
pub struct PostgresCopier {
    session: Session,
    nodes: Vec<Session>,
    config: Config,
}

impl PostgresCopier {
    pub(super) const fn new(session: Session, nodes: Vec<Session>, config: Config) -> Self {
        Self { session, nodes, config }
    }

    /// The session for the rows of a unit, and the table's name there.
    fn place(&self, unit: &Unit) -> (&Session, String) {
        let table = unit.table.name();
        if self.nodes.is_empty() || unit.warehouse == 0 {
            return (&self.session, table.to_owned());
        }
        match nodes::share_of(unit.warehouse, self.nodes.len() + 1, self.config.warehouses) {
            0 => (&self.session, format!("{table}_0")),
            share => (&self.nodes[share - 1], table.to_owned()),
        }
    }

    /// Copies a unit's rows within the session's transaction.
    async fn copy_rows(&self, session: &Session, table: &str, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError> {
        let what = format!("copying {table} of warehouse {}", unit.warehouse);
        // The older of the two forms, which every engine of this wire protocol accepts.
        let text = format!("COPY {table}{} FROM STDIN WITH BINARY", schema::copied_columns(unit.table));
        let sink = session.client.copy_in(&text).await.map_err(sql(&what))?;
        let mut sink = pin!(sink);
        let mut source = RowSource::new(*unit, &self.config);
        let mut rows = CopyRows::new(schema::column_count(unit.table), now);
        let mut more = true;
        while more {
            more = source.push(STEPS_AT_ONCE, &mut rows);
            if !more {
                rows.bytes.put_i16(-1);
            }
            if !more || rows.bytes.len() >= COPY_CHUNK_BYTES {
                let chunk: Bytes = rows.bytes.split().freeze();
                sink.send(chunk).await.map_err(sql(&what))?;
                rows.bytes.reserve(COPY_CHUNK_BYTES + (COPY_CHUNK_BYTES >> 3));
            }
        }
        sink.as_mut().finish().await.map_err(sql(&what))
    }
}

impl Copier for PostgresCopier {
    async fn copy(&mut self, unit: &Unit, now: SystemTime) -> Result<u64, OrdersError> {
        const WHAT: &str = "copying rows";
        if nodes::partition_column(unit.table).is_none() {
            for node in &self.nodes {
                // From the start, if an earlier load was interrupted after copying it.
                let table = unit.table.name();
                node.execute(WHAT, &format!("BEGIN; DELETE FROM {table}")).await?;
                self.copy_rows(node, table, unit, now).await?;
                node.execute(WHAT, "COMMIT").await?;
            }
        }
        let (session, table) = self.place(unit);
        session.execute(WHAT, "BEGIN").await?;
        let rows = self.copy_rows(session, &table, unit, now).await?;
        // The primary key of the note keeps two loads from copying the same rows.
        let note = format!("INSERT INTO load_progress VALUES ({}, {}, {rows}); COMMIT", unit.table as u32, unit.warehouse);
        session.execute(WHAT, &note).await?;
        Ok(rows)
    }

    async fn finish(&mut self, index: usize) -> Result<(), OrdersError> {
        for node in &self.nodes {
            schema::finish(node, index, "").await?;
        }
        schema::finish(&self.session, index, if self.nodes.is_empty() { "" } else { "_0" }).await
    }
}

/// Rows as binary COPY tuples.
struct CopyRows {
    bytes: BytesMut,
    columns: i16,
    now_us: i64,
}

impl CopyRows {
    fn new(columns: i16, now: SystemTime) -> Self {
        let mut bytes = BytesMut::with_capacity(COPY_CHUNK_BYTES + (COPY_CHUNK_BYTES >> 3));
        bytes.put_slice(HEADER);
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_us = i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX) - EPOCH_OFFSET_S * 1_000_000;
        Self { bytes, columns, now_us }
    }
}

impl RowSink for CopyRows {
    fn row(&mut self) {
        self.bytes.put_i16(self.columns);
    }

    fn int(&mut self, value: u32) {
        self.bytes.put_i32(4);
        self.bytes.put_u32(value);
    }

    fn long(&mut self, value: i64) {
        self.bytes.put_i32(8);
        self.bytes.put_i64(value);
    }

    fn text(&mut self, value: &[u8]) {
        debug_assert!(value.len() <= 500, "no column is wider");
        self.bytes.put_i32(value.len() as i32);
        self.bytes.put_slice(value);
    }

    fn now(&mut self) {
        self.long(self.now_us);
    }

    fn null(&mut self) {
        self.bytes.put_i32(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rows_are_tuples_of_counted_fields() {
        let epoch_2000 = UNIX_EPOCH + Duration::from_secs(946_684_800);
        let mut rows = CopyRows::new(5, epoch_2000 + Duration::from_micros(7));
        rows.row();
        rows.int(1);
        rows.long(-1);
        rows.text(b"OE");
        rows.now();
        rows.null();
        let expected: &[u8] = &[
            0, 5, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 8, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 2, b'O', b'E', 0, 0, 0, 8,
            0, 0, 0, 0, 0, 0, 0, 7, 255, 255, 255, 255,
        ];
        assert_eq!(&rows.bytes[..19], HEADER);
        assert_eq!(&rows.bytes[19..], expected);
    }
}
