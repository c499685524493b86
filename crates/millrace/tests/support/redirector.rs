//! A portal that redirects each login (RFC 7143 11.13.5, status class 1).

use iscsi_proto::login::LoginStatus;
use iscsi_proto::pdu::{BHS_BYTES, Bhs, LoginRequest, LoginResponse};
use iscsi_proto::serial::{CmdSn, StatSn};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A running portal. It ends with the test's process.
pub struct Redirector {
    pub port: u16,
    logins: Arc<AtomicUsize>,
}

impl Redirector {
    /// Redirects to the address that `to` returns for the redirector's own port. Stops listening
    /// after `most` logins.
    pub fn start(status: LoginStatus, most: usize, to: impl Fn(u16) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let logins = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&logins);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if answer(stream, status, &to(port)).is_ok() && counted.fetch_add(1, Ordering::SeqCst) + 1 == most {
                    return;
                }
            }
        });
        Self { port, logins }
    }

    /// Number of redirected logins.
    pub fn logins(&self) -> usize {
        self.logins.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, status: LoginStatus, to: &str) -> std::io::Result<()> {
    let mut bhs = Bhs([0; BHS_BYTES]);
    stream.read_exact(&mut bhs.0)?;
    let request = LoginRequest::from_bhs(&bhs);
    let text_bytes = u32::from_be_bytes([0, bhs.0[5], bhs.0[6], bhs.0[7]]) as usize;
    stream.read_exact(&mut vec![0; text_bytes.next_multiple_of(4)])?;
    let numbers = LoginResponse { stat_sn: StatSn(1), exp_cmd_sn: CmdSn(1), max_cmd_sn: CmdSn(1), ..LoginResponse::to(&request) };
    let response = LoginResponse { status: status.0, ..numbers };
    let mut text = format!("TargetAddress={to}\0").into_bytes();
    let mut bhs = response.to_bhs();
    bhs.0[7] = text.len() as u8;
    text.resize(text.len().next_multiple_of(4), 0);
    stream.write_all(&[&bhs.0[..], &text].concat())
}
