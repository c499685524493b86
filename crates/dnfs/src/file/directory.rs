//! Names in a directory.

use super::{Attributes, FileHandle};

/// The position in a listing; the default is its beginning. Only the server can interpret it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryPosition {
    pub(crate) cookie: u64,
    pub(crate) verifier: [u8; 8],
    /// An earlier cookie, and the number of replies since then. None of these replies repeated it.
    anchor: u64,
    since_anchor: u64,
    anchor_lasts: u64,
}

impl DirectoryPosition {
    /// The position after a reply that ended with this cookie. `None` if the cookies form a cycle, in which a listing would never
    /// end. Brent's algorithm finds a cycle within three times the number of cookies in it and before it.
    pub(crate) fn next(self, cookie: u64, verifier: [u8; 8]) -> Option<Self> {
        if cookie == self.cookie || self.anchor_lasts > 0 && cookie == self.anchor {
            return None;
        }
        let position = Self { cookie, verifier, since_anchor: self.since_anchor + 1, ..self };
        if position.since_anchor < self.anchor_lasts {
            return Some(position);
        }
        Some(Self { anchor: cookie, since_anchor: 0, anchor_lasts: (2 * self.anchor_lasts).max(1), ..position })
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Number of the object.
    pub fileid: u64,
    /// Its attributes, if the server sent them.
    pub attributes: Option<Attributes>,
    /// Its handle, if the server sent it.
    pub handle: Option<FileHandle>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies until the listing ends.
    fn replies(cookies: impl Iterator<Item = u64>) -> usize {
        let mut position = Some(DirectoryPosition::default());
        cookies
            .take_while(|cookie| {
                position = position.and_then(|position| position.next(*cookie, [0; 8]));
                position.is_some()
            })
            .count()
    }

    #[test]
    fn cookies_that_go_round_end_a_listing_and_others_do_not() {
        assert_eq!(replies(1..=10_000), 10_000);
        for (before, circle) in [(0, 1), (0, 2), (5, 2), (100, 7), (3, 1000)] {
            let round = (1..=before).chain((before + 1..=before + circle).cycle());
            let count = replies(round);
            assert!(count <= 3 * (before + circle) as usize + 1, "{before} {circle}: {count}");
        }
    }
}
