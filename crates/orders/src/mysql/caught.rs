//! Converts panics of the client library to errors.
//!
//! The library panics on some responses of a server: a public key that is not PEM, an empty packet in the middle of a login.
//! No response of a server may end this program.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

use mysql_async::Error;

thread_local! {
    /// Whether this thread is inside the client library: then a panic is not printed, because it becomes an error.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A panic of the client library.
#[derive(Debug, thiserror::Error)]
#[error("the server's answer is not one that this client understands ({0})")]
struct Panicked(String);

/// Awaits a call of the client library. A panic in it becomes [`Error::Other`]; the connection is unusable afterwards.
pub(super) async fn caught<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    silence_inside();
    let mut call = pin!(call);
    poll_fn(|context| {
        let before = INSIDE.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        INSIDE.set(before);
        polled.unwrap_or_else(|payload| Poll::Ready(Err(Error::Other(Box::new(Panicked(text(&*payload)))))))
    })
    .await
}

/// Keeps the program's panic hook, except for panics inside the client library.
fn silence_inside() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                usual(panic);
            }
        }));
    });
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a fault of the client library").lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_client_library_is_an_error_that_says_why() {
        async fn call(fails: bool) -> Result<u32, Error> {
            assert!(!fails, "bad key");
            Ok(7)
        }
        assert_eq!(caught(call(false)).await.unwrap(), 7);
        let error = caught(call(true)).await.unwrap_err();
        assert!(matches!(&error, Error::Other(why) if why.to_string().contains("bad key")), "{error}");
    }
}
