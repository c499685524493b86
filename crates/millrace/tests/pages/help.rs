//! The test runs the examples of every --help page as printed, except those that `help_cases.txt`
//! lists with a reason.

use crate::blocks::{Block, Mark};
use crate::support::{millrace, succeed};

const CASES: &str = include_str!("help_cases.txt");
const RESULTS: &str = include_str!("../records/first-slice.json");
/// Time limit of a server, in seconds.
const SERVER_SECONDS: u32 = 2;

/// A line of the cases.
enum Case<'a> {
    Needed(&'a str),
    Run { codes: &'a str, command: String },
    NotRun { reason: &'a str },
}

/// Each case with its example. The example is `None` for a command that an example needs first.
fn cases() -> Vec<(Option<&'static str>, Case<'static>)> {
    CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(case).collect()
}

fn case(line: &str) -> (Option<&str>, Case<'_>) {
    let (kind, rest) = line.split_once(' ').expect("a kind and a command");
    match kind {
        "!" => (None, Case::Needed(rest)),
        "-" => {
            let (reason, example) = rest.split_once(": millrace ").expect("a reason and an example");
            (Some(&rest[rest.len() - example.len() - "millrace ".len()..]), Case::NotRun { reason })
        }
        "server" => {
            let command = format!("timeout --preserve-status --signal TERM {SERVER_SECONDS} {rest}");
            (Some(rest), Case::Run { codes: "0", command })
        }
        codes => match rest.strip_prefix("postgres ") {
            Some(example) => (Some(example), Case::Run { codes, command: format!("runuser -u postgres -- {example}") }),
            None => (Some(rest), Case::Run { codes, command: rest.to_owned() }),
        },
    }
}

/// The lines that begin with `millrace` in the help of a command and its subcommands.
fn shown(path: &[String]) -> Vec<String> {
    let help = succeed(millrace().args(path).arg("--help"));
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ").or_else(|| line.strip_prefix("Example: ")));
    let mut shown: Vec<String> = lines.filter(|line| line.starts_with("millrace ")).map(str::to_owned).collect();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for name in
        commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty() && *name != "help")
    {
        shown.extend(self::shown(&[path, &[name.to_owned()]].concat()));
    }
    shown
}

#[test]
fn each_example_of_a_help_page_is_a_case_and_each_case_an_example() {
    let shown = shown(&[]);
    assert!(shown.len() > 80, "{} examples", shown.len());
    // A remark may follow an example.
    let is_of =
        |example: &str, line: &str| line.strip_prefix(example).is_some_and(|rest| rest.is_empty() || rest.starts_with("  "));
    let examples: Vec<&str> = cases().into_iter().filter_map(|(example, _)| example).collect();
    let without: Vec<&String> = shown.iter().filter(|line| !examples.iter().any(|example| is_of(example, line))).collect();
    assert!(without.is_empty(), "no case: {without:#?}");
    let gone: Vec<&&str> = examples.iter().filter(|example| !shown.iter().any(|line| is_of(example, line))).collect();
    assert!(gone.is_empty(), "no example any more: {gone:#?}");
}

#[test]
#[ignore = "nightly: a minute and a half; each example is parsed by the unit tests"]
fn the_examples_of_the_help_pages_run() {
    if !crate::host::can_be_made() {
        return;
    }
    let mut blocks = Vec::new();
    for (number, (_, case)) in cases().iter().enumerate() {
        let commands = match case {
            Case::Needed(command) => format!("{command}\n"),
            Case::Run { codes, command } => {
                let allowed = codes.replace(',', "|");
                format!(
                    "code=0; {{ {command}; }} || code=$?\ncase $code in {allowed}) ;; *) echo \"exit code $code of: \"{};  false ;; esac\n",
                    quoted(command)
                )
            }
            Case::NotRun { reason } => {
                assert!(reason.split_whitespace().count() >= 3, "{reason}");
                continue;
            }
        };
        blocks.push(Block { line: number + 1, commands, mark: Mark::None, output: None });
    }
    let ran = crate::host::run("help-examples", &blocks, false, &[("results.json", RESULTS)]);
    assert!(ran.fault.is_none(), "{}", ran.fault.unwrap_or_default());
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
