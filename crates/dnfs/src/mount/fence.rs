//! Prevents the holder of a revoked lease from changing anything at the server (docs/design/028-stopped-processes.md).

use std::sync::OnceLock;
use std::time::Duration;

use crate::client::Client;
use crate::client_state::MountParts;
use crate::credentials::Credentials;
use crate::limits::{FENCE_CALL_MS, IN_FLIGHT_MS};
use crate::slot_limiter::Fence;
use crate::sys::clock::sleep;
use crate::url::NfsUrl;

/// A client for these calls only. It neither renews nor checks leases, and gives up soon, so that the waiter can check the lock
/// again. It keeps no connection.
#[derive(Debug)]
pub(super) struct FenceClient {
    parts: MountParts,
    url: NfsUrl,
    who: Credentials,
    mount_secret: u64,
    client: OnceLock<Option<Box<Client>>>,
}

impl FenceClient {
    /// Fences at the server of this client. The fencing client is made on first use.
    pub(super) fn of(client: &Client, url: &NfsUrl, who: &Credentials) -> Self {
        let mut url = url.clone();
        let options = &mut url.options;
        (options.soft, options.retries, options.resend_after) = (true, 0, Duration::from_millis(FENCE_CALL_MS));
        (options.slot_count, options.channel_count) = (None, 1);
        let mount_secret = client.state().route.membership.secret;
        Self { parts: client.state().offered(), url, who: who.clone(), mount_secret, client: OnceLock::new() }
    }

    fn client(&self) -> Option<&Client> {
        let make = || {
            let mut client = Client::from_parts(self.parts, &self.url, &self.who).ok()?;
            client.state_mut().route.membership.secret = self.mount_secret;
            Some(Box::new(client))
        };
        self.client.get_or_init(make).as_deref()
    }
}

impl Fence for FenceClient {
    fn is_answered(&self) -> bool {
        let Some(client) = self.client() else { return false };
        let answer = client.null();
        client.state().disconnect();
        answer.is_ok()
    }

    fn fence(&self, number: u64) -> bool {
        if number == 0 {
            return true; // the process has made no connection; it checks its leases before the first
        }
        let Some(client) = self.client() else { return false };
        let fenced = client.state().fence(number);
        client.state().disconnect();
        match fenced {
            Ok(is_fenced) => {
                if !is_fenced {
                    sleep(Duration::from_millis(IN_FLIGHT_MS)); // by then the holder's calls have arrived, or never will
                }
                true
            }
            Err(_) => false,
        }
    }
}
