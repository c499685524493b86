//! Makes the loader run this library's constructor before those of all other libraries: C++'s streams, among others,
//! remember `stdout` in theirs, and by then it must lead where descriptor 1 leads.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo::rerun-if-changed=build.rs");
}
