//! Locks that a panic does not close for those that come after.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, whether or not somebody panicked while holding it: what is locked here is changed in single steps, so
/// nothing half done stays behind; and a node that is silent for ever is worse than one panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics while holding the lock, as a fault of a connection would.
#[cfg(test)]
pub(super) fn poison<T: Send>(mutex: &Mutex<T>) {
    let panicked = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let _guard = lock(mutex);
                panic!("under the lock");
            })
            .join()
    });
    assert!(panicked.is_err() && mutex.is_poisoned());
}
