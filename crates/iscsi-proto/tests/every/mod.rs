//! Every header under one function: read as what its opcode says it is, and written again. Shared by the tests and the fuzz targets.

use iscsi_proto::pdu::*;

/// The header made again from its fields; none for an opcode that is unknown. Lengths of further segments are taken over.
pub fn header_again(bhs: &Bhs) -> Option<Bhs> {
    macro_rules! again {
        ($($name:ident)*) => {
            match bhs.opcode()? { $(Opcode::$name => $name::from_bhs(bhs).to_bhs(),)* }
        };
    }
    let mut again = again! {
        NopOut ScsiCommand TaskRequest LoginRequest TextRequest DataOut LogoutRequest SnackRequest
        NopIn ScsiResponse TaskResponse LoginResponse TextResponse DataIn LogoutResponse R2t AsyncMessage Reject
    };
    again.0[4..8].copy_from_slice(&bhs.0[4..8]);
    Some(again)
}
