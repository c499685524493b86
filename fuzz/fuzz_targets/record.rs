//! Record marking: any bytes, any limit. A record found must lie inside the buffer, and no step may lose bytes behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_proto::record::{Framed, frame};

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (limit, mut buffer) = input;
    let before = buffer.clone();
    match frame(&mut buffer, usize::from(limit)) {
        Ok(Framed::Record { body, consumed }) => {
            assert!(body.end <= consumed && consumed <= buffer.len() && body.len() <= usize::from(limit));
            assert_eq!(buffer[consumed..], before[consumed..]);
        }
        Ok(Framed::Incomplete { bytes_needed }) => {
            assert!(bytes_needed > buffer.len());
            assert_eq!(buffer, before);
        }
        Err(_) => assert_eq!(buffer, before),
    }
});
