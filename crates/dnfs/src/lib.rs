//! Direct NFS client: channels, resend, commit and verifier rules; blocking, fork-aware.
