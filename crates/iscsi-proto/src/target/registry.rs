//! The sessions of a target server, found by the names that identify a session (RFC 7143 4.4.3, 6.3.5).

use super::host::{Opening, Tsih};
use crate::login::{LoginStatus, Name, SessionType};
use crate::pdu::Isid;
use std::collections::HashMap;

/// The key of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The initiator's name.
    pub initiator: Name,
    /// The initiator's part of the session identifier.
    pub isid: Isid,
    /// The target.
    pub target: Name,
    /// The portal group.
    pub portal_group_tag: u16,
}

/// All sessions. `H` is the handle by which the caller ends a session.
#[derive(Debug)]
pub struct Registry<H> {
    by_tsih: HashMap<u16, (Option<SessionKey>, H)>,
    by_key: HashMap<SessionKey, u16>,
    last: u16,
    sessions_max: usize,
}

/// A session that was admitted.
#[derive(Debug, PartialEq, Eq)]
pub struct Admission<H> {
    /// The target's number of the session.
    pub tsih: Tsih,
    /// The session that this one replaces. The caller must end it before it answers the login.
    pub replaced: Option<H>,
}

impl<H> Registry<H> {
    /// An empty registry for up to `sessions_max` sessions, discovery sessions included.
    #[must_use]
    pub fn new(sessions_max: usize) -> Self {
        let sessions_max = sessions_max.min(usize::from(u16::MAX) - 1);
        Self { by_tsih: HashMap::new(), by_key: HashMap::new(), last: 0, sessions_max }
    }

    /// Admits a session. Replaces the session with the same key. Refuses another connection of a session.
    ///
    /// # Errors
    /// The status with which the login is refused.
    pub fn admit(&mut self, opening: &Opening, handle: H) -> Result<Admission<H>, LoginStatus> {
        let key = opening.target.clone().filter(|_| opening.session_type == SessionType::Normal).map(|target| SessionKey {
            initiator: opening.initiator.clone(),
            isid: opening.isid,
            target,
            portal_group_tag: opening.portal_group_tag,
        });
        let same = key.as_ref().and_then(|key| self.by_key.get(key).copied());
        if let Some(tsih) = opening.tsih {
            // Connections cannot be added or taken over: MaxConnections is 1 and ErrorRecoveryLevel is 0.
            return Err(if same == Some(tsih.0) { LoginStatus::TOO_MANY_CONNECTIONS } else { LoginStatus::NO_SESSION });
        }
        if same.is_none() && self.by_tsih.len() >= self.sessions_max {
            return Err(LoginStatus::OUT_OF_RESOURCES);
        }
        let replaced = same.and_then(|tsih| self.by_tsih.remove(&tsih)).map(|(_, handle)| handle);
        let tsih = self.free_tsih();
        if let Some(key) = &key {
            self.by_key.insert(key.clone(), tsih);
        }
        self.by_tsih.insert(tsih, (key, handle));
        Ok(Admission { tsih: Tsih(tsih), replaced })
    }

    /// Removes a session that has ended. Returns its handle, unless another session has replaced it.
    pub fn remove(&mut self, tsih: Tsih) -> Option<H> {
        let (key, handle) = self.by_tsih.remove(&tsih.0)?;
        if let Some(key) = key {
            self.by_key.remove(&key);
        }
        Some(handle)
    }

    /// The handles of all sessions, with their keys. Discovery sessions have no key.
    pub fn iter(&self) -> impl Iterator<Item = (Tsih, Option<&SessionKey>, &H)> {
        self.by_tsih.iter().map(|(tsih, (key, handle))| (Tsih(*tsih), key.as_ref(), handle))
    }

    /// Number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_tsih.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_tsih.is_empty()
    }

    /// The next free number. There are always fewer sessions than numbers.
    fn free_tsih(&mut self) -> u16 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.by_tsih.contains_key(&self.last) {
                return self.last;
            }
        }
    }
}
