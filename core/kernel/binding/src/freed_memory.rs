//! Returns freed memory to the system.
//!
//! glibc keeps what is freed below memory in use, and the parts that a merge frees lie among those that it made. So an
//! index of a million filters would keep half as much again as it uses.

/// Returns the whole free pages of all arenas to the system, where the allocator can.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of C without arguments that point anywhere")]
pub(crate) fn give_back() {
    // SAFETY: glibc locks each arena itself, and only pages without any allocation are returned.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: other allocators return memory themselves, or offer no call for it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
