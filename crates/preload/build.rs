//! Makes the loader run this library's constructor before those of all other libraries: C++'s streams, among others,
//! remember `stdout` in theirs, and by then it must lead where descriptor 1 leads.
//!
//! Cold functions are kept in a section of their own: pages of the others hold more that is used, and fewer of them become resident.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,keep-text-section-prefix");
    println!("cargo::rerun-if-changed=build.rs");
}
