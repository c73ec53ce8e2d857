//! [`SharedArray`]: an array in shared memory. Its length is determined when the server is started.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pgrx::{PGRXSharedMemory, PgSharedMemoryInitialization, pg_sys};

/// An array in shared memory. Unlike the value of a `PgAtomic`, the array is never built on the stack, so it can be
/// large.
///
/// Processes share the elements, so the element type must not contain pointers into the memory of one process.
pub struct SharedArray<T> {
    name: &'static CStr,
    length: fn() -> usize,
    first: AtomicPtr<T>,
    initialized: AtomicUsize,
}

impl<T> SharedArray<T> {
    /// Declares an array. The function `length` is called when the server is started.
    ///
    /// # Safety
    /// No other extension uses this name.
    pub const unsafe fn new(name: &'static CStr, length: fn() -> usize) -> SharedArray<T> {
        SharedArray { name, length, first: AtomicPtr::new(null_mut()), initialized: AtomicUsize::new(0) }
    }

    fn bytes(&self) -> usize {
        (self.length)() * size_of::<T>()
    }
}

impl<T: Sync> SharedArray<T> {
    /// Returns the elements, or an empty slice if the library was not preloaded.
    pub fn get(&self) -> &[T] {
        match self.initialized.load(Ordering::Relaxed) {
            0 => &[],
            // SAFETY: the postmaster has initialized this many elements. They have the same address in every process,
            // and exist as long as the process.
            length => unsafe { slice::from_raw_parts(self.first.load(Ordering::Relaxed), length) },
        }
    }
}

impl<T: Default + PGRXSharedMemory> PgSharedMemoryInitialization for SharedArray<T> {
    type Value = ();

    unsafe fn on_shmem_request(&'static self) {
        // SAFETY: this function is called in `shmem_request_hook`.
        unsafe { pg_sys::RequestAddinShmemSpace(self.bytes()) };
    }

    unsafe fn on_shmem_startup(&'static self, (): ()) {
        let mut was_found = false;
        // SAFETY: this function is called in `shmem_startup_hook`. Only the postmaster runs this hook, so
        // `AddinShmemInitLock` is not needed.
        let first =
            unsafe { pg_sys::ShmemInitStruct(self.name.as_ptr(), self.bytes(), &mut was_found) }.cast::<T>();
        assert!(first.is_aligned(), "bug: shared memory is not aligned");
        let length = (self.length)();
        for at in 0..length {
            // SAFETY: the block has room for all elements, and no other process can use them yet.
            unsafe { first.add(at).write(T::default()) };
        }
        self.first.store(first, Ordering::Relaxed);
        self.initialized.store(length, Ordering::Relaxed);
    }
}
