//! `millrace`, the binary: reads arguments, calls the crates, and ends with a documented exit code.
#![forbid(unsafe_code)]

mod closed_output;
mod cmd;
mod error_printing;
mod help;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{FromArgMatches, Parser};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Runs an OLTP database over network storage, tunes it, and measures what each storage path costs.
#[derive(Parser)]
#[command(name = "millrace", version = version(), arg_required_else_help = true, after_help = AFTER_HELP)]
struct Millrace {
    #[command(subcommand)]
    command: cmd::Command,
}

const AFTER_HELP: &str = "\
Examples:
  millrace serve /srv/db                     serve a directory over NFS, as export /vol
  millrace exec --mount /db=nfs://filer/vol -- ls -l /db
  millrace doctor                            what this host can measure

Exit codes: 0 done; 1 the result is negative (the server refused, an audit has findings, a figure
missed its threshold, …); 2 could not run (arguments, a missing program, …); 3 ran, but the result
is not valid; 4 `tune apply` is done, and steps are left to you; 141 the reader of its output has
ended. A measurement ends with 130 on SIGINT (Ctrl-C), 143 on SIGTERM and 129 on SIGHUP. `millrace
exec` and `millrace guest run` end with the code of the program they ran.";

/// The version, with the commit if the build knew it (`scripts/commit`), so that two builds of one version differ.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| version_of(option_env!("MILLRACE_COMMIT").unwrap_or_default()))
}

fn version_of(commit: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if commit.is_empty() { version.to_owned() } else { format!("{version} ({commit})") }
}

fn main() -> ExitCode {
    let arguments = cmd::of_mount_program(std::env::args_os().collect());
    let mut command = with_negative_values(help::command());
    let matches = command.try_get_matches_from_mut(arguments);
    let matches = matches.unwrap_or_else(|error| error_printing::exit_with(&error));
    if let Some(error) = empty_value(&command, &matches) {
        error_printing::exit_with(&error);
    }
    let millrace = Millrace::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    closed_output::guarded(|| cmd::run(millrace.command).unwrap_or_else(|error| closed_output::code_of(&error)))
}

/// Accepts `-1` after an option as its value, so that the error names the option's limits and not
/// an unknown argument.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let is_option = |argument: &clap::Arg| !argument.is_positional() && argument.get_action().takes_values();
    let command =
        command.mut_args(|argument| if is_option(&argument) { argument.allow_negative_numbers(true) } else { argument });
    command.mut_subcommands(with_negative_values)
}

/// The error for an argument that is empty, as from an unset variable of a script: the same as for a missing value. The
/// arguments of a program that Millrace runs may be empty.
fn empty_value(command: &clap::Command, matches: &clap::ArgMatches) -> Option<clap::Error> {
    let has_empty = |argument: &&clap::Arg| {
        let id = argument.get_id().as_str();
        let typed = !argument.is_trailing_var_arg_set() && matches.value_source(id) == Some(ValueSource::CommandLine);
        typed && matches.try_get_raw(id).ok().flatten().is_some_and(|mut values| values.any(|value| value.is_empty()))
    };
    if let Some(argument) = command.get_arguments().filter(|argument| argument.get_action().takes_values()).find(has_empty) {
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        error.insert(ContextKind::InvalidArg, ContextValue::String(argument.to_string()));
        error.insert(ContextKind::InvalidValue, ContextValue::String(String::new()));
        return Some(error);
    }
    let (name, below) = matches.subcommand()?;
    empty_value(command.find_subcommand(name)?, below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `look` with a command and with every command below it.
    fn each_command(command: &clap::Command, look: &mut impl FnMut(&clap::Command)) {
        look(command);
        command.get_subcommands().for_each(|below| each_command(below, look));
    }

    /// Like [`each_command`], with the words that call each command.
    fn each_path(command: &clap::Command, above: &[String], look: &mut impl FnMut(&[String], &clap::Command)) {
        let path: Vec<String> = above.iter().cloned().chain([command.get_name().to_owned()]).collect();
        look(&path, command);
        command.get_subcommands().for_each(|below| each_path(below, &path, look));
    }

    #[test]
    fn json_prints_to_stdout_everywhere_and_so_takes_no_value() {
        let mut count = 0;
        each_command(&help::command(), &mut |command| {
            let Some(json) = command.get_arguments().find(|option| option.get_long() == Some("json")) else { return };
            assert!(!json.get_action().takes_values(), "{} --json takes a value", command.get_name());
            count += 1;
        });
        assert!(count > 15, "{count} commands have --json");
    }

    /// clap wraps at 100 columns, which would break lines that are laid out by hand.
    #[test]
    fn no_line_of_help_text_laid_out_by_hand_and_no_example_is_wrapped() {
        let mut wrapped = Vec::new();
        each_command(&help::command(), &mut |command| {
            let shown = command.clone().term_width(100).render_long_help().to_string();
            let text = help::text_of(command);
            let by_hand = |line: &&str| text.contains('\n') || line.contains("millrace ");
            let is_whole = |line: &str| shown.lines().any(|whole| whole == line.trim_end());
            let found = text.lines().filter(by_hand).filter(|line| !is_whole(line));
            wrapped.extend(found.map(|line| format!("{}: {line}", command.get_name())));
        });
        assert!(wrapped.is_empty(), "{wrapped:#?}");
    }

    /// A line of help without its remark, the column after `millrace` and its options.
    fn without_remark(line: &str) -> &str {
        let remark = line.match_indices("  ").find(|(at, _)| {
            let behind = line[*at..].trim_start();
            !behind.is_empty() && !behind.starts_with('-')
        });
        remark.map_or(line, |(at, _)| &line[..at]).trim_end()
    }

    /// The words of a command as a shell makes them, up to a redirection.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in command.chars() {
            match (quote, c) {
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), close) if open == close => quote = None,
                (None, ' ') => words.push(String::new()),
                (None, '>' | '|') => break,
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// The commands that a help text shows, each with the name of the command whose help it is.
    fn examples() -> Vec<(String, String)> {
        let mut examples = Vec::new();
        each_command(&help::command(), &mut |command| {
            let text = help::text_of(command);
            let lines = text.lines().filter_map(|line| line.strip_prefix("  ").or_else(|| line.strip_prefix("Example: ")));
            let shown = lines.filter(|line| line.starts_with("millrace ")).flat_map(|line| without_remark(line).split("; "));
            examples.extend(shown.map(|example| (command.get_name().to_owned(), example.to_owned())));
        });
        examples
    }

    #[test]
    fn each_example_of_a_help_text_is_taken_by_the_command_it_shows() {
        let examples = examples();
        assert!(examples.len() > 80, "{} examples", examples.len());
        let mut faults = Vec::new();
        for (name, example) in &examples {
            if let Err(error) = Millrace::try_parse_from(words(example)) {
                faults.push(format!("{name}: {example}: {error}"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// The words of a command line that gives one argument of a command a value.
    fn given(path: &[String], argument: &clap::Arg, value: &str) -> Vec<String> {
        let option =
            argument.get_long().map(|long| format!("--{long}")).or(argument.get_short().map(|short| format!("-{short}")));
        let joined = option.map_or_else(|| value.to_owned(), |option| format!("{option}={value}"));
        path.iter().cloned().chain([joined]).collect()
    }

    /// Parses an example of a command with one more argument. Panics if the argument's parser gives
    /// another type than its field has.
    fn parse_with(example: &[String], path: &[String], argument: &clap::Arg, value: &str) {
        if example.starts_with(path) {
            let _ = Millrace::try_parse_from([example, &given(&[], argument, value)].concat());
        }
    }

    #[test]
    fn each_number_that_is_refused_names_the_option_the_value_and_what_is_accepted() {
        use std::any::TypeId;
        let is_number = |argument: &clap::Arg| {
            let id = argument.get_value_parser().type_id();
            let types =
                [TypeId::of::<u8>(), TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
            let others = [TypeId::of::<i32>(), TypeId::of::<i64>(), TypeId::of::<f64>(), TypeId::of::<std::time::Duration>()];
            types.iter().chain(&others).any(|number| id == *number)
        };
        let (mut count, mut faults, examples) = (0, Vec::new(), examples());
        each_path(&help::command(), &[], &mut |path, command| {
            for argument in command.get_arguments().filter(|argument| is_number(argument)) {
                // A positional argument that begins with a hyphen is an option.
                for value in ["5XB", "-1"].into_iter().filter(|value| !(argument.is_positional() && value.starts_with('-'))) {
                    count += 1;
                    let words = given(path, argument, value);
                    let text = match with_negative_values(help::command()).try_get_matches_from(&words) {
                        Ok(_) => "taken".to_owned(),
                        Err(error) => error.to_string(),
                    };
                    if !text.contains(&format!("'{value}' for '")) || !(text.contains("such as") || text.contains("as in")) {
                        faults.push(format!("{}: {text}", words.join(" ")));
                    }
                    let good = text.split("such as ").nth(1).and_then(|rest| rest.split([',', '\n']).next()).unwrap_or_default();
                    examples.iter().for_each(|(_, example)| parse_with(&self::words(example), path, argument, good));
                }
            }
        });
        assert!(count > 100, "{count} refused numbers");
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn the_version_names_the_commit_where_it_is_known() {
        assert_eq!(version_of(""), env!("CARGO_PKG_VERSION"));
        assert_eq!(version_of("2cd883f38649"), concat!(env!("CARGO_PKG_VERSION"), " (2cd883f38649)"));
    }

    #[test]
    fn a_remark_behind_an_example_is_no_part_of_it() {
        assert_eq!(without_remark("millrace doctor   says what"), "millrace doctor");
        assert_eq!(words("millrace orders load  -d 'a b' > f"), ["millrace", "orders", "load", "-d", "a b"]);
        assert_eq!(without_remark("millrace orders load  -d mill"), "millrace orders load  -d mill");
    }
}
