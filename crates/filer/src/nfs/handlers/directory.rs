//! READDIR, READDIRPLUS (RFC 1813 3.3.16, 3.3.17).

use nfs_proto::nfs3::{
    CookieVerifier, EntriesWriter, Entry, EntryPlus, FileHandle, Name, NfsStatus, PostOpAttr, ReadDirArgs, ReadDirPlusArgs,
};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::encode_to;
use volume::{Attr, Node};

use super::{Context, Done, arguments, fail};
use crate::limits::{BRIEF_LISTING_BYTES, LISTING_BYTES_MAX};
use crate::nfs::convert;

/// Cookies are the host's directory offsets. They stay valid while names are added and removed, and after restarts, so the
/// verifier never changes. It is not zero, because clients send zero with the first call.
const VERIFIER: CookieVerifier = CookieVerifier(*b"dir_off1");

/// A listed name whose attributes are looked up later.
struct Listed {
    fileid: u64,
    cookie: u64,
    name: std::ops::Range<usize>, // in the names of the listing
}

/// Minimum size of an entry of READDIRPLUS without its name, in bytes: link, fileid, length, cookie, attributes flag, handle
/// flag.
const PLUS_BYTES_MIN: usize = 4 + 8 + 4 + 8 + 4 + 4;
/// Usual size of an entry of READDIRPLUS without its name, in bytes: 84 for the attributes and about 40 for the handle in
/// addition.
const PLUS_BYTES_USUAL: usize = PLUS_BYTES_MIN + 84 + 4 + 36;

pub(super) fn read_dir(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: ReadDirArgs = arguments(bytes)?;
    let (dir, attr) = match listable(context, &args.dir, args.cookie, args.cookie_verifier) {
        Ok(found) => found,
        Err((status, attributes)) => return Ok(fail(status, &attributes, out)),
    };
    if takes_long(context, &attr) {
        return Ok(Done::COLD);
    }
    let start = out.len();
    let result_start = begin(&attr, out);
    let mut entries = EntriesWriter::new(result_start, args.count.min(LISTING_BYTES_MAX), u32::MAX);
    let listed = context.export.volume.read_dir(&dir, args.cookie, &mut |entry| {
        let name = entry.name;
        entries.push(&Entry { fileid: entry.fileid, name: Name(name), cookie: entry.cookie }, name, out)
    });
    let eof = match listed {
        Ok(eof) => eof,
        Err(error) => return Ok(give_up(context, context.status(&error), &dir, start, out)),
    };
    Ok(finish(context, entries, eof, args.count, &dir, start, out))
}

pub(super) fn read_dir_plus(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: ReadDirPlusArgs = arguments(bytes)?;
    let (dir, attr) = match listable(context, &args.dir, args.cookie, args.cookie_verifier) {
        Ok(found) => found,
        Err((status, attributes)) => return Ok(fail(status, &attributes, out)),
    };
    if takes_long(context, &attr) {
        return Ok(Done::COLD);
    }
    let bytes_max = args.max_count.min(LISTING_BYTES_MAX);
    let start = out.len();
    let result_start = begin(&attr, out);
    // Lists as many names as will fit, and then looks their attributes up while no listing is open.
    let mut names = Vec::new();
    let mut listing: Vec<Listed> = Vec::new();
    let mut estimate = 0;
    let listed = context.export.volume.read_dir(&dir, args.cookie, &mut |entry| {
        let name = names.len()..names.len() + entry.name.len();
        estimate += PLUS_BYTES_USUAL + entry.name.len().next_multiple_of(4);
        if estimate > bytes_max as usize && !listing.is_empty() {
            return false;
        }
        names.extend_from_slice(entry.name);
        listing.push(Listed { fileid: entry.fileid, cookie: entry.cookie, name });
        true
    });
    let mut eof = match listed {
        Ok(eof) => eof,
        Err(error) => return Ok(give_up(context, context.status(&error), &dir, start, out)),
    };
    let searchable = context.operator().may_search(&dir, attr);
    let mut entries = EntriesWriter::new(result_start, bytes_max, args.dir_count);
    for item in &listing {
        let name = names.get(item.name.clone()).unwrap_or_default();
        let (attributes, handle) = if searchable { look(context, &dir, name) } else { (None, None) };
        let entry = EntryPlus { fileid: item.fileid, name: Name(name), cookie: item.cookie, attributes, handle };
        if !entries.push(&entry, name, out) {
            eof = false;
            break;
        }
    }
    Ok(finish(context, entries, eof, args.max_count, &dir, start, out))
}

/// The optional attributes and handle of an entry, if they are available.
fn look(context: &Context<'_>, dir: &Node, name: &[u8]) -> (PostOpAttr, Option<FileHandle>) {
    match context.find(dir, name) {
        Ok((handle, attr)) => (Some(convert::fattr(&attr)), Some(handle)),
        Err(_) => (None, None),
    }
}

/// Checks that the caller may list the directory from this cookie.
fn listable(
    context: &Context<'_>,
    handle: &FileHandle,
    cookie: u64,
    verifier: CookieVerifier,
) -> Result<(Node, Attr), (NfsStatus, PostOpAttr)> {
    let dir = context.node(handle).map_err(|status| (status, None))?;
    let attr = context.attr(&dir).map_err(|status| (status, None))?;
    let refuse = |status| Err((status, Some(convert::fattr(&attr))));
    if let Err(error) = context.operator().may_list(&dir, attr) {
        return refuse(context.status(&error));
    }
    // Some clients send no verifier with a cookie. The filer's cookies are valid without it.
    if cookie != 0 && verifier != VERIFIER && verifier != CookieVerifier::default() {
        return refuse(NfsStatus::BadCookie);
    }
    Ok((dir, attr))
}

/// Whether the listing is not executed now because it may take long and the call may not wait.
const fn takes_long(context: &Context<'_>, dir: &Attr) -> bool {
    !context.may_wait && dir.size > BRIEF_LISTING_BYTES
}

/// Appends status, attributes and verifier. Returns the position after the status, where the counted part of the result begins.
fn begin(dir: &Attr, out: &mut Vec<u8>) -> usize {
    encode_to(&NfsStatus::Ok, out);
    let result_start = out.len();
    encode_to(&Some(convert::fattr(dir)), out);
    encode_to(&VERIFIER, out);
    result_start
}

/// Ends the list. If no entry, or not even the empty list, fits into `count` bytes, appends an error instead.
fn finish(
    context: &Context<'_>,
    entries: EntriesWriter,
    eof: bool,
    count: u32,
    dir: &Node,
    start: usize,
    out: &mut Vec<u8>,
) -> Done {
    let none = entries.count() == 0;
    entries.finish(eof, out);
    let result_bytes = out.len() - start - 4;
    if none && (!eof || result_bytes > count as usize) {
        return give_up(context, NfsStatus::TooSmall, dir, start, out);
    }
    Done::OK
}

/// Removes what was appended, and appends an error.
fn give_up(context: &Context<'_>, status: NfsStatus, dir: &Node, start: usize, out: &mut Vec<u8>) -> Done {
    out.truncate(start);
    // The host rejects an offset only because of the client's cookie.
    let status = if status == NfsStatus::Inval { NfsStatus::BadCookie } else { status };
    fail(status, &context.post(dir), out)
}
