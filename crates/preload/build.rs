//! Makes the loader run this library's constructor before those of all other libraries. Some of
//! those, such as C++'s streams, store `stdout` in their constructors, and by then `stdout` must
//! lead where descriptor 1 leads.
//!
//! Keeps cold functions in a section of their own, so that fewer pages become resident.
//!
//! zig's linker, which makes the packages, refuses both options. `MILLRACE_LINKER=zig` leaves them
//! out, and scripts/dist-initfirst sets the flag of the first one in the library.

fn main() {
    if std::env::var_os("MILLRACE_LINKER").is_none_or(|linker| linker != "zig") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,keep-text-section-prefix");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MILLRACE_LINKER");
}
