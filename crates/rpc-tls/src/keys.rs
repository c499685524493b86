//! The key of one direction with its record number, and the derivation of the next keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use crate::error::RecordFault;
use crate::limits::{RECORD_HEAD_BYTES, RECORD_TAIL_BYTES};

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = RECORD_TAIL_BYTES - 1;

/// A key in use. It never uses a record number twice.
pub(crate) struct TrafficKey {
    key: LessSafeKey,
    iv: [u8; NONCE_BYTES],
    sequence: u64, // of the next record
}

impl TrafficKey {
    pub(crate) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, RecordFault> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(RecordFault::NoKey),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| RecordFault::NoKey)?;
        let iv = iv.as_ref().try_into().map_err(|_| RecordFault::NoKey)?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// Seals `body` in place. Returns the tag, which the caller writes after it.
    pub(crate) fn seal(
        &mut self,
        head: [u8; RECORD_HEAD_BYTES],
        body: &mut [u8],
    ) -> Result<impl AsRef<[u8]> + use<>, RecordFault> {
        let nonce = self.next_nonce()?;
        self.key.seal_in_place_separate_tag(nonce, Aad::from(head), body).map_err(|_| RecordFault::NoKey)
    }

    /// Opens `body` in place, tag included. Returns the number of decrypted bytes.
    pub(crate) fn open(&mut self, head: [u8; RECORD_HEAD_BYTES], body: &mut [u8]) -> Result<usize, RecordFault> {
        if body.len() < TAG_BYTES {
            return Err(RecordFault::Forged);
        }
        let nonce = self.next_nonce()?;
        let plain = self.key.open_in_place(nonce, Aad::from(head), body).map_err(|_| RecordFault::Forged)?;
        Ok(plain.len())
    }

    /// RFC 8446 5.3: the IV XOR the record number. Increments the number.
    fn next_nonce(&mut self) -> Result<Nonce, RecordFault> {
        let mut nonce = self.iv;
        let number = self.sequence.to_be_bytes();
        for (byte, number) in nonce.iter_mut().skip(NONCE_BYTES - number.len()).zip(number) {
            *byte ^= number;
        }
        self.sequence = self.sequence.checked_add(1).ok_or(RecordFault::NoKey)?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// The state that both directions of a connection share.
pub(crate) struct Shared {
    chain: Mutex<KeySchedule>,
    /// The peer has requested a change of the key that this side seals with (RFC 8446 4.6.3).
    pub(crate) key_update_requested: AtomicBool,
}

/// The secrets from which further keys are derived (RFC 8446 7.2).
pub(crate) enum KeySchedule {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

impl Shared {
    pub(crate) const fn new(chain: KeySchedule) -> Self {
        Self { chain: Mutex::new(chain), key_update_requested: AtomicBool::new(false) }
    }

    /// The next key to seal with.
    pub(crate) fn next_to_seal(&self) -> Result<TrafficKey, RecordFault> {
        self.key_update_requested.store(false, Ordering::Relaxed);
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = match &mut *chain {
            KeySchedule::Client(kernel) => kernel.update_tx_secret(),
            KeySchedule::Server(kernel) => kernel.update_tx_secret(),
        };
        TrafficKey::new(secrets.map_err(|_| RecordFault::NoKey)?)
    }

    /// The next key to open with.
    pub(crate) fn next_to_open(&self) -> Result<TrafficKey, RecordFault> {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = match &mut *chain {
            KeySchedule::Client(kernel) => kernel.update_rx_secret(),
            KeySchedule::Server(kernel) => kernel.update_rx_secret(),
        };
        TrafficKey::new(secrets.map_err(|_| RecordFault::NoKey)?)
    }
}
