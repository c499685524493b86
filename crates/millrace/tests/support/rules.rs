//! Rules for `--rules`.

/// One rule about the kernel, with a change that applies at once.
pub const SWAPPINESS: &str = r#"
schema = 1
layer = "os-kernel"

[[rule]]
id = "linux-test-swappiness"
title = "The kernel keeps the database in memory"
platforms = ["linux"]
test = "sysctl.vm.swappiness <= 10"
severity = "medium"
reason = "A page of the database that was written out is read back by a user who waits."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "live"
set = [{ kind = "sysctl", key = "vm.swappiness", value = "1" }]
[[rule.fires]]
facts = { "sysctl.vm.swappiness" = 60 }
[[rule.silent]]
facts = { "sysctl.vm.swappiness" = 1 }
"#;
