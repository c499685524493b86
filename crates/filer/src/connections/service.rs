//! The interface between a protocol and its connections.

use std::sync::Arc;

use rpc_tls::ServerTls;

use super::connection::Connection;
use super::ended::Ended;
use super::turn::{Outgoing, Turn};
use super::workers::CarryOut;

/// A protocol that is served on connections.
pub(crate) trait Service: CarryOut + Sized {
    /// The service's state of a connection. Made when the connection begins, dropped when it has ended.
    type Session: Send + 'static;

    /// Executes every whole request that was received and appends the replies. Called on the connection's thread. It may wait for
    /// the peer. It may wait for the medium if no other request of the connection is in progress.
    ///
    /// # Errors
    /// Why the connection must end.
    fn serve(&self, session: &mut Self::Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended>;

    /// Whether the connection has a deadline. Then it keeps its thread, which calls [`Self::tick`].
    fn waits(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Handles expired deadlines. Called when a connection that keeps its thread received nothing for a while.
    ///
    /// # Errors
    /// Why the connection must end.
    fn tick(&self, _session: &mut Self::Session, _out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        Ok(())
    }

    /// Certificates for connections that start TLS from now on. `None` if TLS is off.
    fn tls(&self) -> Option<ServerTls>;

    /// Notes that the connection is under TLS from now on. `certified`: the client presented a trusted certificate.
    fn secured(&self, session: &mut Self::Session, certified: bool);

    /// Called when the peer has closed the connection.
    fn closed(&self, _connection: &Arc<Connection>) {}

    /// Appends the last bytes to send. Called when the peer sends nothing more, or when the filer stops.
    ///
    /// # Errors
    /// Those of the socket.
    fn ending(&self, _session: &mut Self::Session, _out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        Ok(())
    }
}
