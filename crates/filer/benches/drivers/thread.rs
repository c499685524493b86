//! A blocking thread for each connection and nothing else: what the filer's own driver would cost without its cares.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use filer::connections::ReceiveBuffer;

use super::stage::Stage;

pub(crate) fn serve(listener: TcpListener, stage: Arc<Stage>) {
    for stream in listener.incoming() {
        let (mut stream, stage) = (stream.unwrap(), Arc::clone(&stage));
        stream.set_nodelay(true).unwrap();
        std::thread::spawn(move || {
            let (mut received, mut out) = (ReceiveBuffer::default(), Vec::new());
            while let Ok(bytes @ 1..) = stream.read(received.space()) {
                received.filled(bytes);
                stage.turn(&mut received, &mut out);
                if stream.write_all(&out).is_err() {
                    return;
                }
                out.clear();
            }
        });
    }
}
