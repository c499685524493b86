//! The part of HTTP/1.1 (RFC 9112) that a collector needs: one GET of one of two paths, one response, then the end of the
//! connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::limits::METRICS_REQUEST_BYTES_MAX;

const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
/// The media type of the text format of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Largest number of header lines that are parsed. The size of the request is limited too.
const HEADERS_MAX: usize = 100;

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Metrics,
    Health,
    ServiceUnavailable,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    TooLarge,
    VersionNotSupported,
}

impl Verdict {
    /// The status line's code and phrase (RFC 9110 15).
    const fn status(self) -> &'static str {
        match self {
            Self::Metrics | Self::Health => "200 OK",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Reads a request, sends the response, and ends the connection, all by the deadline.
///
/// # Errors
/// Those of the socket, and `TimedOut`.
pub(super) fn answer(
    stream: &TcpStream,
    deadline: Instant,
    page: impl FnOnce() -> String,
    health: impl FnOnce() -> Result<(), String>,
) -> io::Result<()> {
    let mut verdict = match request(stream, deadline) {
        Ok(verdict) => verdict,
        Err(error) if error.kind() == ErrorKind::TimedOut => Verdict::Timeout,
        Err(error) => return Err(error),
    };
    let body = match verdict {
        Verdict::Metrics => page(),
        Verdict::Health => match health() {
            Ok(()) => "ok\n".to_owned(),
            Err(reason) => {
                verdict = Verdict::ServiceUnavailable;
                reason
            }
        },
        refused => format!("{}\n", refused.status()),
    };
    let allow = if verdict == Verdict::MethodNotAllowed { "Allow: GET\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\n{allow}Content-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        verdict.status(),
        body.len()
    );
    // A peer whose time is over has this long to take a short response.
    let deadline = if verdict == Verdict::Timeout { Instant::now() + Duration::from_millis(100) } else { deadline };
    send(stream, deadline, head.as_bytes())?;
    send(stream, deadline, body.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    drain(stream, deadline);
    Ok(())
}

/// Receives until the header of the request has ended.
fn request(mut stream: &TcpStream, deadline: Instant) -> io::Result<Verdict> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let received = match stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(timed_out(error)),
        };
        // The end may have begun in the last three bytes that were received before.
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(piece.get(..received).unwrap_or_default());
        let end = bytes.windows(4).skip(from).position(|ahead| ahead == b"\r\n\r\n");
        if let Some(end) = end {
            return Ok(bytes.get(..from + end).map_or(Verdict::BadRequest, judge));
        }
        if bytes.len() > METRICS_REQUEST_BYTES_MAX {
            return Ok(Verdict::TooLarge);
        }
    }
}

/// The response to the header of a request. `header` is without the empty line at its end.
fn judge(header: &[u8]) -> Verdict {
    let Ok(header) = std::str::from_utf8(header) else { return Verdict::BadRequest };
    let mut lines = header.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().splitn(4, ' ').collect();
    let &[method, target, version] = words.as_slice() else { return Verdict::BadRequest };
    let fields: Vec<&str> = lines.take(HEADERS_MAX + 1).collect();
    if method.is_empty() || fields.len() > HEADERS_MAX || fields.iter().any(|line| line.split_once(':').is_none()) {
        return Verdict::BadRequest;
    }
    let hosts =
        fields.iter().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host")).count();
    match version {
        "HTTP/1.0" => {}
        // RFC 9112 3.2: exactly one Host field.
        "HTTP/1.1" if hosts == 1 => {}
        "HTTP/1.1" => return Verdict::BadRequest,
        _ if version.starts_with("HTTP/") => return Verdict::VersionNotSupported,
        _ => return Verdict::BadRequest,
    }
    let found = match target.split('?').next() {
        Some(METRICS) => Verdict::Metrics,
        Some(HEALTH) => Verdict::Health,
        _ => return Verdict::NotFound,
    };
    if method == "GET" { found } else { Verdict::MethodNotAllowed }
}

/// Sends all bytes by the deadline, however slowly the peer takes them.
fn send(mut stream: &TcpStream, deadline: Instant, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(timed_out(error)),
        }
    }
    Ok(())
}

/// Receives what the peer still sends, up to a limit. Closing a socket with unread bytes would discard the response.
fn drain(mut stream: &TcpStream, deadline: Instant) {
    let mut piece = [0; 1024];
    for _ in 0..METRICS_REQUEST_BYTES_MAX / piece.len() {
        let Ok(time) = left(deadline) else { return };
        if stream.set_read_timeout(Some(time)).is_err() || !matches!(stream.read(&mut piece), Ok(1..)) {
            return;
        }
    }
}

/// Time until the deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Converts `WouldBlock`, the error of a socket timeout, to `TimedOut`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_a_get_of_one_of_the_paths_gets_a_page() {
        let host = "Host: here:9100";
        let judged = |first: &str| judge(format!("{first}\r\n{host}").as_bytes());
        assert_eq!(judged("GET /metrics HTTP/1.1"), Verdict::Metrics);
        assert_eq!(judged("GET /metrics?name=x HTTP/1.0"), Verdict::Metrics);
        assert_eq!(judged("GET /healthz HTTP/1.1"), Verdict::Health);
        for target in ["/", "/healthz/", "/metrics/", "/metrics2", "/../metrics", "//metrics", "*", ""] {
            assert_eq!(judged(&format!("GET {target} HTTP/1.1")), Verdict::NotFound, "{target}");
        }
        for method in ["POST", "HEAD", "get", "PUT", "DELETE", "OPTIONS", "PRI"] {
            assert_eq!(judged(&format!("{method} /metrics HTTP/1.1")), Verdict::MethodNotAllowed, "{method}");
        }
        assert_eq!(judged("GET /metrics HTTP/2.0"), Verdict::VersionNotSupported);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let many = format!("GET /metrics HTTP/1.1{}", "\r\na: b".repeat(HEADERS_MAX + 1));
        for header in [
            "",
            " ",
            "GET",
            "GET /metrics",
            "GET /metrics ",
            "GET /metrics HTTP/1.1",
            "GET /metrics HTTP/1.1 x\r\nHost: a",
            "GET /metrics HTTP/1.1\r\nHost: a\r\nhost: b",
            "GET /metrics HTTP/1.1\r\nHost: a\r\nnonsense",
            " /metrics HTTP/1.1\r\nHost: a",
            "GET /metrics FTP/1.1\r\nHost: a",
            &many,
        ] {
            assert_eq!(judge(header.as_bytes()), Verdict::BadRequest, "{header:?}");
        }
        assert_eq!(judge(b"GET /metrics HTTP/1.1\r\nHost: \xff"), Verdict::BadRequest);
    }

    /// The response to a peer that sends these pieces, within a second.
    fn exchange(pieces: &[&[u8]], limit: Duration) -> (io::Result<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        pieces.iter().for_each(|piece| peer.write_all(piece).unwrap());
        let ended = answer(&stream, Instant::now() + limit, || "x 1\n".into(), || Ok(()));
        drop(stream);
        let mut answered = String::new();
        let _ = peer.read_to_string(&mut answered);
        (ended, answered)
    }

    #[test]
    fn a_request_in_pieces_is_answered_whole() {
        let (listener, begin) = (TcpListener::bind("127.0.0.1:0").unwrap(), Instant::now());
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let ended = std::thread::spawn(move || answer(&stream, begin + Duration::from_secs(30), || "x 1\n".into(), || Ok(())));
        for byte in b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" {
            peer.write_all(&[*byte]).unwrap();
        }
        let mut answered = String::new();
        peer.read_to_string(&mut answered).unwrap();
        drop(peer);
        ended.join().unwrap().unwrap();
        assert!(answered.starts_with("HTTP/1.1 200 OK\r\n") && answered.contains("\r\nContent-Length: 4\r\n"), "{answered}");
        assert!(answered.ends_with("\r\n\r\nx 1\n"), "{answered}");
    }

    #[test]
    fn healthz_answers_200_or_503_with_the_reason_as_its_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut answers =
            [Ok(()), Err("volume db: a flush failed\n".to_owned())].into_iter().map(|health: Result<(), String>| {
                let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (stream, _) = listener.accept().unwrap();
                peer.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
                peer.shutdown(Shutdown::Write).unwrap();
                answer(&stream, Instant::now() + Duration::from_secs(30), String::new, || health).unwrap();
                let mut answered = String::new();
                peer.read_to_string(&mut answered).unwrap();
                answered
            });
        let good = answers.next().unwrap();
        assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\nok\n"), "{good}");
        let bad = answers.next().unwrap();
        assert!(bad.starts_with("HTTP/1.1 503 ") && bad.ends_with("\r\n\r\nvolume db: a flush failed\n"), "{bad}");
    }

    #[test]
    fn a_peer_that_does_not_come_to_an_end_is_sent_away() {
        let (_, answered) = exchange(&[b"GET /metrics HTTP/1.1\r\n"], Duration::from_millis(50));
        assert!(answered.starts_with("HTTP/1.1 408 "), "{answered}");
        let (_, answered) = exchange(&[&[b'a'; METRICS_REQUEST_BYTES_MAX + 1]], Duration::from_millis(500));
        assert!(answered.starts_with("HTTP/1.1 431 "), "{answered}");
    }
}
