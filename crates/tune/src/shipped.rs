//! The files of `rules/` as they are in the program: name, text. Written by `cargo run -p tune --example renew`.

pub(crate) const FILES: &[(&str, &str)] = &[("rules/catalogue.toml", include_str!("../../../rules/catalogue.toml"))];
