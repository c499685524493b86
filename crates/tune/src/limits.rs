//! Limits of the tuner's rules and judgements, each with its reason.

/// Longest expression in bytes. The longest built-in one has a twentieth of this.
pub const EXPRESSION_BYTES_MAX: usize = 8 * 1024;
/// Deepest nesting of an expression. The parser needs about ten stack frames for each level, and 48
/// levels fit the smallest stack in use.
pub const EXPRESSION_DEPTH_MAX: usize = 48;
/// Steps of one evaluation. `any` inside `each`, over 500 LUNs each, takes a million steps and 20
/// ms. After that the result is unknown.
pub const EXPRESSION_STEPS_MAX: usize = 1_000_000;
/// Longest text of a value in a finding, in characters: about a line of a terminal.
pub const SHOWN_CHARACTERS_MAX: usize = 160;
/// Facts that a finding lists as found or as missing. Users do not read longer lists.
pub const LINES_MAX: usize = 24;
/// Things of one kind that a rule judges one by one. A large host has a thousand LUNs.
pub const THINGS_JUDGED_MAX: usize = 4096;

/// Largest rule file in bytes. All built-in ones together are smaller.
pub const RULE_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Rule files of one folder.
pub const RULE_FILES_MAX: usize = 512;
/// Depth of folders below the named one. The built-in rules have one level.
pub const RULE_FOLDERS_DEEP_MAX: usize = 4;
/// Rules of one set: a few times the number of built-in ones.
pub const RULES_MAX: usize = 4096;
/// Longest ID of a rule in bytes, so that it fits a column of a table.
pub const RULE_ID_BYTES_MAX: usize = 72;
/// Longest title of a rule in characters: about a line.
pub const RULE_TITLE_CHARACTERS_MAX: usize = 120;

/// Longest title of a finding in characters: two lines of a terminal. The title contains values
/// from captures.
pub const FINDING_TITLE_CHARACTERS_MAX: usize = 240;

/// Largest waiver file in bytes: a thousand waivers with a paragraph of reason each.
pub const WAIVER_FILE_BYTES_MAX: usize = 1 << 20;
/// Waivers of a file. Each is compared with each finding.
pub const WAIVERS_MAX: usize = 5_000;
/// Largest stored audit in bytes: 400 rules on 500 things with 300 bytes of text each are 60 MB.
pub const AUDIT_BYTES_MAX: u64 = 128 << 20;
/// Largest file of measured effects in bytes: each rule of a set with a kilobyte of text.
pub const RULE_EFFECTS_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(EXPRESSION_DEPTH_MAX < EXPRESSION_BYTES_MAX);
const _: () = assert!(RULE_EFFECTS_BYTES_MAX >= RULES_MAX as u64 * 1024);
