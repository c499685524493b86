//! The usual layout of a READ reply, recognised so that its data can be received where it belongs.

use super::types::attributes_of;
use crate::rpc::calls::ReadHead;
use nfs_proto::nfs3::ReadHeadResult;
use nfs_proto::record::{self, LAST_FRAGMENT};
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Reader, padding};

/// The head that every server sends before the data of a READ: mark, reply header with an empty verifier, status,
/// attributes that follow, count, end of file, length (RFC 5531 9, RFC 1813 3.3.6). In bytes.
pub(crate) const READ_HEAD_BYTES: usize = 4 + 24 + 4 + 4 + 84 + 12;

/// Reads the head of a READ reply that is laid out as expected and has at most `data_bytes_max` bytes of data.
pub(crate) fn parse(head: &[u8], data_bytes_max: usize) -> Option<ReadHead> {
    let mut input = Reader::new(head);
    let mark = u32::decode(&mut input).ok()?;
    let header = ReplyHeader::decode(&mut input).ok().filter(|header| header.status == ReplyStatus::Success)?;
    let head = ReadHeadResult::decode(&mut input).ok()?.ok()?;
    let data = head.data_bytes as usize;
    let rest_bytes = data + padding(data);
    let whole = mark == LAST_FRAGMENT | (READ_HEAD_BYTES - record::MARK_BYTES + rest_bytes) as u32;
    let fits = input.position() == READ_HEAD_BYTES && head.count == head.data_bytes && data <= data_bytes_max;
    (whole && fits).then(|| ReadHead {
        xid: header.xid.0,
        data_bytes: data,
        rest_bytes,
        eof: head.eof,
        attributes: head.attributes.as_ref().map(attributes_of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_proto::nfs3::{Data, Failure, Fattr, FileType, NfsStatus, NfsTime, ReadOk, ReadResult, SpecData};
    use nfs_proto::rpc::{Xid, encode_reply};

    fn attributes() -> Fattr {
        let time = NfsTime::default();
        let (rdev, kind) = (SpecData::default(), FileType::Regular);
        Fattr {
            kind,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 9,
            used: 9,
            rdev,
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn reply(attributes: Option<Fattr>, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let header = ReplyHeader { xid: Xid(7), status: ReplyStatus::Success };
        let results: ReadResult<'_> = Ok(ReadOk { attributes, count: data.len() as u32, eof: true, data: Data(data) });
        encode_reply(&header, &results, &mut out);
        out
    }

    #[test]
    fn the_usual_head_is_recognised_with_the_bytes_that_follow() {
        let bytes = reply(Some(attributes()), b"hello");
        let direct = parse(&bytes[..READ_HEAD_BYTES], 5).unwrap();
        assert_eq!((direct.xid, direct.data_bytes, direct.rest_bytes), (7, 5, 8));
        assert_eq!(bytes.len(), READ_HEAD_BYTES + direct.rest_bytes);
    }

    #[test]
    fn other_layouts_and_too_much_data_are_left_to_the_general_path() {
        let without = reply(None, &[1; 100]);
        assert!(parse(&without[..READ_HEAD_BYTES], 100).is_none());
        assert!(parse(&reply(Some(attributes()), b"hello")[..READ_HEAD_BYTES], 4).is_none());
        let mut out = Vec::new();
        let refused: ReadResult<'_> = Err(Failure { status: NfsStatus::Stale, body: Some(attributes()) });
        encode_reply(&ReplyHeader { xid: Xid(7), status: ReplyStatus::Success }, &refused, &mut out);
        out.resize(READ_HEAD_BYTES, 0);
        assert!(parse(&out, 100).is_none());
    }
}
