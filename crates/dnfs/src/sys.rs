//! System calls wrapped in safe functions: the only unsafe code of this crate.
//!
//! All system calls use rustix, which makes them by instruction, because this crate also runs inside the preload library, whose
//! hooks have the names of libc's functions. The calls that rustix lacks, or makes more slowly, go through `raw`. std gets no
//! descriptor, because it would close it by libc's `close`.

pub(crate) mod access_list;
pub(crate) mod atomic;
pub(crate) mod clock;
pub(crate) mod connect;
pub(crate) mod detached;
pub(crate) mod fd;
pub(crate) mod file_lock;
pub(crate) mod fork;
pub(crate) mod fork_lock;
pub(crate) mod futex;
pub(crate) mod internal_fd;
pub(crate) mod liveness_lock;
pub(crate) mod local_file;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod range_lock;
pub(crate) mod raw;
mod record_lock;
pub(crate) mod region;
pub(crate) mod shm;
pub(crate) mod signals_blocked;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod socket;
pub(crate) mod stack_mark;
pub(crate) mod whole_file;

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// libc functions that this crate may call: no hook of the preload library has their names.
    const CALLED: [&str; 2] = ["clock_gettime", "pthread_atfork"];

    #[test]
    fn system_calls_are_made_by_instruction_and_not_by_names_that_preload_replaces() {
        // The backend without libc keeps an errno in 16 bits, the other in a C int (feature `use-libc`, which stays off).
        assert_eq!(size_of::<rustix::io::Errno>(), 2, "rustix goes by libc");
        let mut sources = Vec::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
        assert!(sources.len() > 50);
        for source in sources {
            let text = std::fs::read_to_string(&source).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in code.split("libc::").skip(1) {
                let name: String = call.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                let is_call = call.get(name.len()..).is_some_and(|rest| rest.starts_with('('));
                assert!(!is_call || CALLED.contains(&name.as_str()), "{}: libc::{name}", source.display());
            }
            for name in ["std::fs::", "OwnedFd)", "TcpStream"] {
                // All but the last run in `millrace` (in `mount_paths.rs`, what lists), or list the runtime directory.
                // `fd.rs` takes descriptors that rustix opens out of std's type.
                let allowed = [
                    "mount/observer.rs",
                    "mount/mount_paths.rs",
                    "mount/processes.rs",
                    "mount/apart.rs",
                    "mount/give_up.rs",
                    "mount/url_roots.rs",
                    "segment/url_notes.rs",
                    "mount/keeper_namespaces.rs",
                    "mount/strays.rs",
                    "sys/fd.rs",
                ]
                .iter()
                .any(|file| source.ends_with(file));
                assert!(!code.contains(name) || allowed, "{}: {name}", source.display());
            }
        }
    }

    fn collect(directory: &Path, sources: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
}
