//! The preload library: libc symbols onto dnfs.
