//! The atomic types that this crate uses. In tests with the model checker loom, they are replaced by loom's types.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[cfg(loom)]
pub use checked::{AtomicI64, AtomicU64, Ordering};

/// loom's atomics, with one addition. loom 0.7 runs another thread before an access only if it finds a conflict between
/// this access and the *last* access to the same word. If a thread loads a word and then changes the word, loom
/// compares the change only with this load, and forgets earlier loads by other threads. Therefore loom skips some
/// interleavings. Here, a relaxed `fetch_add` to a second word precedes each access. These additions conflict with each
/// other, so loom runs them in all orders. Because they are relaxed, they do not order other accesses.
#[cfg(loom)]
mod checked {
    pub use loom::sync::atomic::Ordering;

    macro_rules! checked {
        ($name:ident, $value:ty, $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
            #[derive(Debug)]
            pub struct $name {
                word: loom::sync::atomic::$name,
                turn: loom::sync::atomic::AtomicU64,
            }

            impl $name {
                pub fn new(value: $value) -> $name {
                    $name {
                        word: loom::sync::atomic::$name::new(value),
                        turn: loom::sync::atomic::AtomicU64::new(0),
                    }
                }

                $(pub fn $method(&self, $($argument: $type),*) -> $result {
                    self.turn.fetch_add(1, Ordering::Relaxed);
                    self.word.$method($($argument),*)
                })*
            }

            impl Default for $name {
                fn default() -> $name {
                    $name::new(<$value>::default())
                }
            }
        };
    }

    checked! {
        AtomicU64, u64,
        load(order: Ordering) -> u64;
        store(value: u64, order: Ordering) -> ();
        swap(value: u64, order: Ordering) -> u64;
        fetch_add(value: u64, order: Ordering) -> u64;
        fetch_min(value: u64, order: Ordering) -> u64;
        compare_exchange(current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
        compare_exchange_weak(current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
    }

    checked! {
        AtomicI64, i64,
        load(order: Ordering) -> i64;
        store(value: i64, order: Ordering) -> ();
    }
}
