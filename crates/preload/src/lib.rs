//! The preload library: libc's file functions for paths and descriptors that lead to a Direct NFS mount.
//!
//! An unmodified program that `millrace exec` starts sees the export below the mount's path. Its
//! descriptors are kernel descriptors. An open file is an open placeholder in a directory in
//! memory, so the kernel handles dup, fork, exec, close-on-exec and the shared offset. An open or
//! working directory is a removed directory there (`directories`). Calls on other objects go to
//! libc unchanged. docs/design/003-preload.md explains why; docs/compat/preload.md lists every
//! symbol.
//!
//! A directory of this host may be declared to be on a modelled medium (`medium`): libc handles its
//! files, and this library delays the results.
//!
//! Most of the project's unsafe code is here: `hook` (exported names), `ffi` (pointers of C) and
//! `raw` (system calls) are where it begins. The library prints nothing unless the user must know
//! or `MILLRACE_LOG` is set.

mod advice;
mod after_fork;
mod aio;
mod allocation;
mod attach_lock;
mod attributes;
mod byte_range;
mod change;
mod close;
#[cfg_attr(target_env = "musl", path = "musl/cookie.rs")]
mod cookie;
mod copy;
mod credentials;
mod data;
mod description_flags;
mod description_locks;
mod descriptor_list;
mod descriptors;
mod directories;
mod directory_placeholders;
mod durable;
mod entries;
mod exec;
mod ffi;
#[cfg(not(target_env = "musl"))]
mod file_layout;
mod file_size_limit;
mod formatted;
#[cfg(not(target_env = "musl"))]
mod fts;
mod hook;
mod keeper;
#[cfg(not(target_env = "musl"))]
mod kept_pointers;
mod kernel_aio;
mod libraries;
mod lock_files;
mod mapping;
mod medium;
mod memory;
mod messages;
mod mounts;
mod names;
mod open;
mod open_file;
mod outages;
mod outcome;
mod paths;
mod permission;
mod pointers;
mod private_maps;
mod processes;
mod queues;
mod raw;
mod reach;
mod read_ahead;
mod record_locks;
mod refusal;
mod scan;
mod shared_maps;
mod socket_addresses;
mod sockets;
mod spawn;
mod spawn_actions;
mod stand_ins;
#[cfg_attr(target_env = "musl", path = "musl/standard.rs")]
mod standard;
mod status;
mod stderr;
mod stdio;
mod streams;
mod syscalls;
mod table;
mod tempnam;
mod tree;
mod umask;
mod users;
mod wal_index;
#[cfg(not(target_env = "musl"))]
mod wide;

use libc::{c_char, c_int};
use std::ffi::CStr;

/// Runs before the program, and before the constructors of all other libraries (see build.rs). Uses
/// no network.
#[used]
#[unsafe(link_section = ".init_array")]
static START: Start = start;

type Start = extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char);

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

extern "C" fn start(_argument_count: c_int, _arguments: *mut *mut c_char, environment: *mut *mut c_char) {
    // SAFETY: no other thread runs yet, so no other code uses `environ`. libc's own constructor,
    // which runs later, sets the same value.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
    }
    hook::learn_own_text();
    std::panic::set_hook(Box::new(|panic| messages::warn(format_args!("internal error: {panic}"))));
    messages::configure(variable(c"MILLRACE_LOG"));
    if let Some(value) = variable(medium::VARIABLE) {
        for look_up in [data::read::look_up, data::write::look_up] {
            look_up();
        }
        medium::parse(value);
    }
    let Some(value) = variable(mounts::VARIABLE) else { return };
    umask::learn();
    file_size_limit::learn();
    exec::environment::forget_copies();
    exec::image::name_process();
    if !table::reserve() || !streams::reserve() {
        refusal::set(refusal::Refusal::AddressSpace);
    }
    // SAFETY: the handlers are async-signal-safe and live as long as the process.
    unsafe { libc::pthread_atfork(None, Some(table::note_copies), Some(after_fork::in_child)) };
    // SAFETY: `at_exit` lives as long as the process. exit(3) ends the process from inside libc,
    // where no hook runs.
    let _ = unsafe { libc::atexit(close::at_exit) };
    for look_up in [data::read::look_up, data::write::look_up, close::close::look_up] {
        look_up();
    }
    dnfs::report_to(outages::report);
    mounts::parse(value, variable(keeper::VARIABLE), variable(refusal::VARIABLE));
    directories::learn_inherited();
    exec::environment::learn();
    reach::learn(variable(reach::VARIABLE), variable(c"LD_PRELOAD"), variable(keeper::VARIABLE));
    stderr::attach_messages();
    standard::inherited();
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a NUL, and no code has changed the environment yet.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv returned a NUL-terminated string. Callers stop using it before the program can
    // change its environment.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes()).filter(|value| !value.is_empty())
}
