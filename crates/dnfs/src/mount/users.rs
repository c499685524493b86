//! One mount used with several credentials (docs/design/012-users.md): those of this process, as they change, and those that
//! somebody else wrote with.

use core::sync::atomic::AtomicU32;
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
    /// The same mount for calls with other credentials: connections and cached directory handles of its own, and the state of all
    /// files in common.
    ///
    /// # Errors
    /// [`SegmentError::Directory`] when the user this process has become may not use the runtime directory.
    pub fn with_credentials(&self, who: &Credentials) -> Result<Self, Error> {
        trusted(self.segment.directory().root())?; // this user may be another than the one who attached
        let mut client = self.client.with_credentials(&self.url, who)?;
        let count = self.url.options.slot_count;
        client.pool.keep_by(KeptConnections::new(Arc::clone(self.segment.members())));
        client.slot_limiter = count.map(|count| SlotLimiter::new(Arc::clone(self.segment.members()), count));
        Ok(Self {
            local_path: self.local_path.clone(),
            who: who.for_url(&self.url),
            credentials_place: AtomicU32::new(0),
            client,
            others: Others::default(),
            read_ahead: super::read_ahead::ReadAhead::new(),
            segment: self.segment.clone(),
            directories: Directories::default(),
            writers: self.writers.clone(),
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

    /// Number of this mount's credentials in the table that all processes share, below 256; none when the table is full.
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

    /// The credentials of this number; none when it was never given out.
    #[must_use]
    pub fn credentials_of_number(&self, number: u32) -> Option<Credentials> {
        self.segment.credentials_at(number, &self.who)
    }

    /// Says that these credentials wrote to the file: their place.
    pub(super) fn note_writer(&self, slot: &Slot) -> Option<u32> {
        let place = self.credentials_number()?;
        note(&slot.writer_credentials, place);
        Some(place)
    }

    /// The same of taking its last name away.
    pub(super) fn note_remover(&self, file: FileRef) {
        if let (Some(place), Some(slot)) = (self.credentials_number(), self.segment.slot(file)) {
            note(&slot.remover_credentials, place);
        }
    }

    /// COMMIT until nothing written before this call is unstable, by this user, or by the file's writer where this user may not.
    /// `is_refusal` tells which errors mean that the data must be taken for lost; that somebody else may not COMMIT does not.
    pub(super) fn commit_as_allowed(&self, file: FileRef, slot: &Slot, is_refusal: impl Fn(&Error) -> bool) -> Result<(), Error> {
        let writer = slot.writer_credentials.load(Relaxed);
        let is_writer = writer != 0 && self.credentials_number() == Some(writer - 1);
        let done = self.commit_writes_by(&self.client, file, slot, |error| is_refusal(error) && (is_writer || !is_denial(error)));
        match done {
            Err(error) if !is_writer && is_denial(&error) => match writer {
                // Nobody wrote since the segment was made, and this user never could.
                0 if !slot.has_unsaved() => Ok(()),
                0 => Err(error),
                place => self.commit_writes_by(self.acting_as(place - 1)?, file, slot, is_refusal),
            },
            done => done,
        }
    }

    /// Who may remove the name the file was given when its last one was taken.
    pub(super) fn client_of_remover(&self, slot: &Slot) -> &Client {
        match slot.remover_credentials.load(Relaxed) {
            0 => &self.client,
            noted => self.acting_as(noted - 1).unwrap_or(&self.client),
        }
    }

    /// A client with the credentials of a place.
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

    /// The verifier the server has now, if a connection was made since it was last asked; by the file's writer where this user may
    /// not write.
    pub(super) fn verifier_after_connect(&self, slot: &Slot) -> Result<Option<WriteVerifier>, Error> {
        self.client.verifier_after_connect(|| {
            let handle = handle_of(slot)?;
            match (self.client.verifier(&handle), slot.writer_credentials.load(Relaxed)) {
                (Err(error), noted) if noted != 0 && is_denial(&error) => self.acting_as(noted - 1)?.verifier(&handle).map(Some),
                (answer, _) => answer.map(Some),
            }
        })
    }
}

/// Whether the server let this user not do it, which others may.
const fn is_denial(error: &Error) -> bool {
    matches!(error, Error::Fs(FsError::AccessDenied | FsError::NotOwner))
}

fn note(noted: &AtomicU32, place: u32) {
    if noted.load(Relaxed) != place + 1 {
        noted.store(place + 1, Relaxed);
    }
}

/// Clients with the credentials of others, by their place, made when first needed.
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
