//! Bounds of the tuner's rules and judgements, each with its reason.

/// Longest expression, in bytes: the longest of our own is a twentieth of it.
pub const EXPRESSION_BYTES_MAX: usize = 8 * 1024;
/// How deep an expression may be nested. A level costs the parser about ten frames; 48 of them fit the smallest stack in use.
pub const EXPRESSION_DEPTH_MAX: usize = 48;
/// Steps of one evaluation. `any` inside `each` over 500 LUNs each takes a million; it ends in 20 ms, then the answer is
/// that nothing is known.
pub const EXPRESSION_STEPS_MAX: usize = 1_000_000;
/// Longest text that a finding shows of a value, in characters: a line of a terminal.
pub const SHOWN_CHARACTERS_MAX: usize = 160;
/// Facts that a finding lists as found or as missing; a person reads no more.
pub const LINES_MAX: usize = 24;
/// Things of one kind that a rule judges one by one: a large host has a thousand LUNs.
pub const THINGS_JUDGED_MAX: usize = 4096;

/// Largest rule file, in bytes: all of ours together are smaller.
pub const RULE_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Rule files of one folder.
pub const RULE_FILES_MAX: usize = 512;
/// Folders below the one named: ours has one.
pub const RULE_FOLDERS_DEEP_MAX: usize = 4;
/// Rules of one set, a few times ours.
pub const RULES_MAX: usize = 4096;
/// Longest identity of a rule, in bytes: a column of a table.
pub const RULE_ID_BYTES_MAX: usize = 72;
/// Longest title of a rule, in characters: a line.
pub const RULE_TITLE_CHARACTERS_MAX: usize = 120;

/// Longest title of a finding, in characters: two lines of a terminal, with the values of a capture in it.
pub const FINDING_TITLE_CHARACTERS_MAX: usize = 240;

/// Largest waiver file, in bytes: a thousand waivers with a paragraph of reason each.
pub const WAIVER_FILE_BYTES_MAX: usize = 1 << 20;
/// Waivers of a file; each is held against each finding.
pub const WAIVERS_MAX: usize = 5_000;
/// Largest stored audit that is read, in bytes: 400 rules on 500 things with 300 bytes of text each are 60 MB.
pub const AUDIT_BYTES_MAX: u64 = 128 << 20;
/// Largest file of measured effects that is read, in bytes: each rule of a set, with a kilobyte of words.
pub const RULE_EFFECTS_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(EXPRESSION_DEPTH_MAX < EXPRESSION_BYTES_MAX);
const _: () = assert!(RULE_EFFECTS_BYTES_MAX >= RULES_MAX as u64 * 1024);
