//! Atomic integers of memory that processes share: those of `core`. In unit tests each access is also a point at which the
//! simulator may let another process run, or kill this one (`crate::sim`).

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
#[cfg(test)]
#[allow(unreachable_pub, reason = "as above")]
pub use stepped::{AtomicU16, AtomicU32, AtomicU64};

/// The word itself, for the kernel and for code that does not know the simulator.
pub(crate) const fn word(of: &AtomicU32) -> &core::sync::atomic::AtomicU32 {
    #[cfg(test)]
    let of = of.inner();
    of
}

#[cfg(test)]
mod stepped {
    use crate::sys::simulated::turn;
    use core::sync::atomic::{self, Ordering};

    macro_rules! stepped {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            #[repr(transparent)]
            #[allow(unreachable_pub, reason = "a cursor of the public interface has this type")]
            pub struct $name(atomic::$name);

            #[allow(dead_code, reason = "each width has all operations")]
            impl $name {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }

                /// The integer itself.
                pub(super) const fn inner(&self) -> &atomic::$name {
                    &self.0
                }

                pub(crate) fn fetch_update(
                    &self,
                    success: Ordering,
                    failure: Ordering,
                    mut next: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    let mut known = self.load(failure);
                    while let Some(new) = next(known) {
                        match self.compare_exchange(known, new, success, failure) {
                            Ok(found) => return Ok(found),
                            Err(found) => known = found,
                        }
                    }
                    Err(known)
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    turn();
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    turn();
                    self.0.store(value, order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    turn();
                    self.0.swap(value, order)
                }

                pub(crate) fn compare_exchange(
                    &self,
                    known: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    turn();
                    self.0.compare_exchange(known, new, success, failure)
                }

                stepped!(@fetch $value, fetch_add fetch_sub fetch_or fetch_and fetch_xor fetch_max fetch_min);
            }
        };
        (@fetch $value:ty, $($method:ident)*) => {
            $(pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                turn();
                self.0.$method(value, order)
            })*
        };
    }

    stepped!(AtomicU16, u16);
    stepped!(AtomicU32, u32);
    stepped!(AtomicU64, u64);
}
