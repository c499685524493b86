//! A connection on its own thread: the client library blocks while the database works, and the
//! sessions of a driver's thread must not wait for each other.

use std::sync::mpsc;
use std::time::Duration;

use oracle::{Connection, Error, ErrorKind};
use tokio::sync::oneshot;

use crate::error::OrdersError;
use crate::limits::CONNECT_S;

/// Address of a database, and the user.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
    /// `//HOST:PORT/SERVICE`.
    pub(super) address: String,
}

impl Login {
    /// Description of the database, without the password.
    pub(super) fn server(&self) -> String {
        format!("the Oracle database {} as {}", self.address, self.user)
    }
}

/// An error of the database while it did `what`.
pub(super) fn sql(what: &str) -> impl FnOnce(Error) -> OrdersError {
    move |source| OrdersError::Oracle { what: what.to_owned(), source: Box::new(source) }
}

type Work = Box<dyn FnOnce(&Connection) + Send>;

/// Passes work to the thread. Dropping it closes the connection.
pub(super) struct Session {
    work: mpsc::Sender<Work>,
}

impl Session {
    /// Connects. The first connection of the process loads the client library.
    pub(super) async fn open(login: &Login) -> Result<Self, OrdersError> {
        let (work, queue) = mpsc::channel::<Work>();
        let (told, connected) = oneshot::channel();
        let Login { user, password, address } = login.clone();
        let thread = move || match Connection::connect(user, password, address) {
            Ok(connection) => {
                if told.send(Ok(())).is_ok() {
                    queue.into_iter().for_each(|work| work(&connection));
                }
            }
            Err(error) => drop(told.send(Err(error))),
        };
        let spawned = std::thread::Builder::new().name("oracle session".to_owned()).spawn(thread);
        spawned.map_err(|error| OrdersError::Thread { what: format!("a session with Oracle: {error}") })?;
        let (server, limit) = (login.server(), Duration::from_secs(CONNECT_S));
        match tokio::time::timeout(limit, connected).await {
            Ok(Ok(Ok(()))) => Ok(Self { work }),
            Ok(Ok(Err(source))) => Err(OrdersError::OracleConnect { server, source: Box::new(source) }),
            Ok(Err(_)) => Err(OrdersError::OracleConnect { server, source: Box::new(ended()) }),
            Err(_) => Err(OrdersError::ConnectTimeout { server, seconds: limit.as_secs() }),
        }
    }

    /// Runs `work` with the connection on the thread.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (told, answer) = oneshot::channel();
        // The caller may have gone away; the work is done in any case.
        let work: Work = Box::new(move |connection| drop(told.send(work(connection))));
        self.work.send(work).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Runs statements without parameters, in sequence.
    pub(super) async fn execute(&self, what: &str, texts: Vec<String>) -> Result<(), OrdersError> {
        let all = move |connection: &Connection| texts.iter().try_for_each(|text| connection.execute(text, &[]).map(drop));
        self.ask(all).await.map_err(sql(what))
    }

    /// The one number of a query.
    pub(super) async fn number(&self, what: &str, text: String) -> Result<i64, OrdersError> {
        self.ask(move |connection| connection.query_row_as::<i64>(&text, &[])).await.map_err(sql(what))
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Other, "the session's thread has ended")
}
