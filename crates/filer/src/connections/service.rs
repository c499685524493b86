//! What a protocol is to its connections.

use rpc_tls::ServerTls;

use super::ended::Ended;
use super::turn::{Outgoing, Turn};
use super::workers::CarryOut;

/// A protocol that is served on connections.
pub(crate) trait Service: CarryOut + Sized {
    /// What a connection is to the service. Made when the connection begins, dropped when it has ended.
    type Session;

    /// Serves every whole request that was received and appends the replies. Called on the thread of the connection, which may
    /// wait for its peer and, where nothing else of the connection is under way, for the medium.
    ///
    /// # Errors
    /// Why the connection has to end.
    fn serve(&self, session: &mut Self::Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended>;

    /// Certificates for connections that go over to TLS from now on; none: there is no TLS.
    fn tls(&self) -> Option<ServerTls>;

    /// The connection is under TLS from now on; `certified`: its client showed a certificate that is trusted.
    fn secured(&self, session: &mut Self::Session, certified: bool);

    /// The peer sends nothing more, or the filer stops: the last that may be sent.
    ///
    /// # Errors
    /// As those of the socket.
    fn ending(&self, _session: &mut Self::Session, _out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        Ok(())
    }
}
