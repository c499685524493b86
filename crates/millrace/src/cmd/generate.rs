//! `millrace generate`: writes man pages and shell completions from the command tree of `--help`,
//! so they match the program. `make dist` runs it for the packages.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write a page of section 1 for each command into this directory
    #[arg(long, value_name = "DIR", required_unless_present = "completions")]
    man: Option<PathBuf>,
    /// Write the completions of bash, zsh and fish into this directory: millrace.bash, _millrace, millrace.fish
    #[arg(long, value_name = "DIR")]
    completions: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.man {
        make(folder)?;
        clap_mangen::generate_to(crate::help::command(), folder)
            .and_then(|()| improve(folder))
            .with_context(|| format!("write man pages into {}", folder.display()))?;
    }
    if let Some(folder) = &args.completions {
        make(folder)?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut crate::help::command(), "millrace", folder)
                .with_context(|| format!("write the completions of {shell} into {}", folder.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds what the generator leaves out of each page.
fn improve(folder: &Path) -> std::io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let page = std::fs::read_to_string(&path)?;
        std::fs::write(&path, keep_lines_of_examples(&with_values_in_synopsis(&page)))?;
    }
    Ok(())
}

/// Keeps the line breaks of the text after the options, which is laid out by hand for `--help`, and
/// names its section.
fn keep_lines_of_examples(page: &str) -> String {
    let Some((before, section)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (section, behind) = section.find("\n.SH ").map_or((section, ""), |end| section.split_at(end + 1));
    format!("{before}.SH \"EXAMPLES AND NOTES\"\n.nf\n{section}.fi\n{behind}")
}

/// Adds the value of each option to the synopsis, as in the option's own paragraph: `[--mkfs <KIND>]`.
fn with_values_in_synopsis(page: &str) -> String {
    const HEADING: &str = ".SH SYNOPSIS\n";
    let Some((before, behind)) = page.split_once(HEADING) else { return page.to_owned() };
    let Some((synopsis, behind)) = behind.split_once('\n') else { return page.to_owned() };
    let with_value = |word: &str| -> Option<String> {
        let option = word.strip_prefix('[')?.strip_suffix(']')?;
        let long = option.rsplit('|').next().filter(|long| long.starts_with("\\fB"))?;
        let paragraph = behind.lines().find_map(|line| line.split_once(&format!("{long} \\fI<")))?.1;
        Some(format!("[{option} \\fI<{}>\\fR]", paragraph.split_once('>')?.0))
    };
    let words: Vec<String> = synopsis.split(' ').map(|word| with_value(word).unwrap_or_else(|| word.to_owned())).collect();
    format!("{before}{HEADING}{}\n{behind}", words.join(" "))
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_help_shows_has_a_man_page_and_completions_in_three_shells() {
        let scratch = tempfile::tempdir().unwrap();
        let (man, completions) = (scratch.path().join("man"), scratch.path().join("completions"));
        run(Args { man: Some(man.clone()), completions: Some(completions.clone()) }).unwrap();
        let words =
            ["millrace.bash", "_millrace", "millrace.fish"].map(|name| std::fs::read_to_string(completions.join(name)).unwrap());
        assert!(words[0].contains("compgen -W \"cached write-around direct dropbehind\""), "values of --cache");
        let mut count = 0;
        for command in crate::help::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = std::fs::read_to_string(man.join(format!("millrace-{name}.1"))).unwrap();
            assert!(page.contains(".TH") && page.contains(name), "{page}");
            assert!(words.iter().all(|text| text.contains(name)), "{name} is not completed in some shell");
            count += 1;
        }
        assert!(count > 10 && man.join("millrace.1").is_file(), "{count} pages");
        let page = std::fs::read_to_string(man.join("millrace-exec.1")).unwrap();
        assert!(page.contains("NOTES\"\n.nf\nExamples") && !page.contains("EXTRA"), "{page}");
        let page = std::fs::read_to_string(man.join("millrace-iscsi-attach.1")).unwrap();
        assert!(page.contains(r"[\fB\-\-mkfs\fR \fI<KIND>\fR] [\fB\-\-force\fR] [\fB\-\-mount\fR \fI<"), "{page}");
        assert!(!man.join("millrace-keeper.1").exists(), "a hidden command has a page");
    }
}
