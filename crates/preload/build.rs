//! Makes the loader run this library's constructor before those of all other libraries: C++'s streams, among others,
//! remember `stdout` in theirs, and by then it must lead where descriptor 1 leads.
//!
//! Cold functions are kept in a section of their own: pages of the others hold more that is used, and fewer of them become resident.
//!
//! zig's linker, with which packages are made, refuses both options; `MILLRACE_LINKER=zig` leaves them out, and
//! scripts/dist-initfirst sets the first one's flag in the library.

fn main() {
    if std::env::var_os("MILLRACE_LINKER").is_none_or(|linker| linker != "zig") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,keep-text-section-prefix");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MILLRACE_LINKER");
}
