//! Serial numbers: 32 bits that wrap around (RFC 1982, RFC 7143 4.2.2).

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number `count` after this one.
            #[must_use]
            pub const fn plus(self, count: u32) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// The next number.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// Whether this number comes before `other`. False in both directions if they are 2^31 apart (RFC 1982
            /// 3.2).
            #[must_use]
            pub const fn is_before(self, other: Self) -> bool {
                let ahead = other.0.wrapping_sub(self.0);
                ahead != 0 && ahead < 1 << 31
            }

            /// The distance from `earlier` to this number, modulo 2^32.
            #[must_use]
            pub const fn since(self, earlier: Self) -> u32 {
                self.0.wrapping_sub(earlier.0)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

serial! {
    /// Number of a command in its session: CmdSN, ExpCmdSN, MaxCmdSN (RFC 7143 4.2.2.1).
    CmdSn
}
serial! {
    /// Number of a response on its connection: StatSN, ExpStatSN (RFC 7143 4.2.2.2).
    StatSn
}
serial! {
    /// Number of a data PDU or an R2T of a command: DataSN, R2TSN (RFC 7143 4.2.2.3).
    DataSn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_goes_on_behind_the_largest_number() {
        let last = CmdSn(u32::MAX);
        assert_eq!(last.next(), CmdSn(0));
        assert!(last.is_before(CmdSn(0)) && last.is_before(CmdSn(5)) && !CmdSn(0).is_before(last));
        assert_eq!(CmdSn(3).since(CmdSn(u32::MAX - 1)), 5);
    }

    #[test]
    fn of_equal_and_of_opposite_numbers_none_comes_before() {
        assert!(!StatSn(7).is_before(StatSn(7)));
        assert!(!StatSn(0).is_before(StatSn(1 << 31)) && !StatSn(1 << 31).is_before(StatSn(0)));
    }
}
