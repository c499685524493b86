//! One mount with several credentials (docs/design/012-users.md): those of this process, as they change, and those with which
//! other users wrote.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::{Directories, FileRef, Mount, handle_of};
use crate::client::Client;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FsError, WriteVerifier};
use crate::segment::SegmentError;
use crate::segment::layout::{CREDENTIAL_COUNT, Slot};
use crate::segment::runtime_root::trusted;
use crate::slot_limiter::{KeptConnections, SlotLimiter};

impl Mount {
    /// The same mount for calls with other credentials. Connections and cached directory handles are separate; the state of all
    /// files is shared.
    ///
    /// # Errors
    /// [`SegmentError::Directory`] if the current user of this process may not use the runtime directory.
    pub fn with_credentials(&self, who: &Credentials) -> Result<Self, Error> {
        trusted(self.segment.directory().root())?; // this user may not be the one that attached
        let mut client = self.client.with_credentials(&self.url, who)?;
        let count = self.url.options.slot_count;
        client.state_mut().pool.keep_by(KeptConnections::new(Arc::clone(self.segment.members())));
        client.state_mut().slot_limiter = count.map(|count| SlotLimiter::new(Arc::clone(self.segment.members()), count));
        let codec = client.io_codec();
        Ok(Self {
            local_path: self.local_path.clone(),
            who: who.for_url(&self.url),
            credentials_place: core::sync::atomic::AtomicU32::new(0),
            client,
            others: Others::default(),
            read_ahead: super::read_ahead::ReadAhead::new(codec),
            segment: self.segment.clone(),
            directories: Directories::default(),
            locks: self.locks.clone(),
            stable: self.stable,
            close: self.close,
            retention: Arc::clone(&self.retention),
            url: self.url.clone(),
            shared_use: self.shared_use,
            single_owner: self.single_owner,
            _user: self._user.clone(),
            keeps_access_times: super::create::KeepsAccessTimes::default(),
            last_set: super::latest::Latest::default(),
            last_made: super::latest::Latest::default(),
            log_writes: super::log_writes::LogWrites::default(),
            gather: self.gather,
            keeper_expected_ms: core::sync::atomic::AtomicU64::new(self.keeper_expected_ms.load(Relaxed)),
            sequences: super::sequences::Sequences::default(),
            swept_ms: core::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Number of this mount's credentials in the table that all processes share, below 256. `None` if the table is full.
    #[must_use]
    pub fn credentials_number(&self) -> Option<u32> {
        match self.credentials_place.load(Relaxed) {
            0 => {
                let place = self.segment.place_of(&self.who)?;
                self.credentials_place.store(place + 1, Relaxed);
                Some(place)
            }
            known => Some(known - 1),
        }
    }

    /// The credentials of this number. `None` if it was never assigned.
    #[must_use]
    pub fn credentials_of_number(&self, number: u32) -> Option<Credentials> {
        self.segment.credentials_at(number, &self.who)
    }

    /// Notes that these credentials wrote to the file. Returns their index.
    pub(super) fn note_writer(&self, slot: &Slot) -> Option<u32> {
        let place = self.credentials_number()?;
        note(&slot.writer_credentials, place);
        Some(place)
    }

    /// Notes that these credentials removed the file's last name.
    pub(super) fn note_remover(&self, file: FileRef) {
        if let (Some(place), Some(slot)) = (self.credentials_number(), self.segment.slot(file)) {
            note(&slot.remover_credentials, place);
        }
    }

    /// Sends COMMIT until nothing written before this call is unstable, as this user, or as the file's writer if the server
    /// denies COMMIT to this user. `is_refusal` returns which errors mean that the data is lost. A denial to a user that did
    /// not write is not such an error.
    pub(super) fn commit_as_allowed(&self, file: FileRef, slot: &Slot, is_refusal: impl Fn(&Error) -> bool) -> Result<(), Error> {
        let writer = slot.writer_credentials.load(Relaxed);
        let is_writer = writer != 0 && self.credentials_number() == Some(writer - 1);
        let done = self.commit_writes_by(&self.client, file, slot, |error| is_refusal(error) && (is_writer || !is_denial(error)));
        match done {
            Err(error) if !is_writer && is_denial(&error) => match writer {
                // No process has written since the segment was created, so there is nothing to
                // commit.
                0 if !slot.has_unsaved() => Ok(()),
                0 => Err(error),
                place => self.commit_writes_by(self.acting_as(place - 1)?, file, slot, is_refusal),
            },
            done => done,
        }
    }

    /// A client that may remove the file's silly name: with the credentials that removed its last name.
    pub(super) fn client_of_remover(&self, slot: &Slot) -> &Client {
        match slot.remover_credentials.load(Relaxed) {
            0 => &self.client,
            noted => self.acting_as(noted - 1).unwrap_or(&self.client),
        }
    }

    /// A client with the credentials of this number.
    pub(super) fn acting_as(&self, place: u32) -> Result<&Client, Error> {
        if self.credentials_number() == Some(place) {
            return Ok(&self.client);
        }
        let other = self.others.0.get(place as usize).ok_or(SegmentError::Retained)?;
        if let Some(client) = other.get() {
            return Ok(client);
        }
        let who = self.segment.credentials_at(place, &self.who).ok_or(SegmentError::Retained)?;
        let client = self.client.with_credentials(&self.url, &who)?;
        Ok(other.get_or_init(|| Box::new(client)))
    }

    /// The server's current verifier, if a connection was made since the last request for it. Asks as the file's writer if
    /// the server denies the request to this user.
    pub(super) fn verifier_after_connect(&self, slot: &Slot) -> Result<Option<WriteVerifier>, Error> {
        self.client.state().verifier_after_connect(|| {
            let handle = handle_of(slot)?;
            match (self.client.verifier(&handle), slot.writer_credentials.load(Relaxed)) {
                (Err(error), noted) if noted != 0 && is_denial(&error) => self.acting_as(noted - 1)?.verifier(&handle).map(Some),
                (answer, _) => answer.map(Some),
            }
        })
    }
}

/// Whether the server denied this to the user but may allow it to others.
const fn is_denial(error: &Error) -> bool {
    matches!(error, Error::Fs(FsError::AccessDenied | FsError::NotOwner))
}

fn note(noted: &AtomicU32, place: u32) {
    if noted.load(Relaxed) != place + 1 {
        noted.store(place + 1, Relaxed);
    }
}

/// Clients with other credentials, by their number, made on first use.
#[derive(Debug)]
pub(super) struct Others(Box<[OnceLock<Box<Client>>]>);

impl Default for Others {
    fn default() -> Self {
        Self((0..CREDENTIAL_COUNT).map(|_| OnceLock::new()).collect())
    }
}

impl Others {
    pub(super) fn after_fork_child(&self) {
        self.0.iter().filter_map(OnceLock::get).for_each(|client| client.after_fork_child());
    }
}
