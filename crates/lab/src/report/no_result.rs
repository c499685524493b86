//! Figures that are not a result, or that need a remark, in every output.

use std::time::Duration;

use results::compare::{CachingClass, Comparison, Cpu, PathResult, PlanRecord, Served};

use super::fixture::{SOUND, comparison};
use super::{WIDTH_MAX, html, markdown, table, table_for_terminal};
use crate::compare::conclude;

/// The valid comparison, judged again after a change.
fn concluded(change: impl FnOnce(&mut [PathResult], &mut PlanRecord)) -> Comparison {
    let Comparison { mut paths, mut plan, environment, .. } = comparison(SOUND);
    change(&mut paths, &mut plan);
    let times = ("2026-11-21T04:00:00Z".to_owned(), Duration::from_secs(300));
    conclude(paths, plan, environment, vec!["a note to be read".to_owned()], &[], times)
}

fn with_cpu(paths: &mut [PathResult], change: impl Fn(&mut Cpu)) {
    paths.iter_mut().filter_map(|path| path.cpu.as_mut()).for_each(change);
}

#[test]
fn one_run_or_a_disturbed_host_is_the_first_sentence_everywhere_and_a_sound_comparison_has_none() {
    let once = concluded(|_, plan| plan.repeats_done = 1);
    let busy = concluded(|paths, _| with_cpu(paths, |cpu| cpu.others_busy_share = 0.5));
    let stolen = concluded(|paths, _| with_cpu(paths, |cpu| cpu.stolen_share = 0.25));
    for (found, why) in [
        (once, "one run on each path"),
        (busy, "other programs used up to 50 % of this host"),
        (stolen, "other machines took up to 25 % of the processor time wanted here (steal time)"),
    ] {
        let first = format!("NOT A RESULT: {why}.");
        assert!(found.verdict.starts_with(&format!("{first} Direct NFS: ")) && found.valid, "{}", found.verdict);
        assert_eq!(table(&found, 200).lines().next(), Some(first.as_str()));
        assert!(markdown(&found).contains(&format!("**{first}**")));
        let page = html(&found).unwrap();
        assert!(page.contains("<body class=\"not-a-result\">") && page.contains(&format!("<p class=\"verdict\">{first}</p>")));
    }
    let sound = concluded(|_, _| ());
    assert!(sound.not_a_result.is_empty() && !sound.verdict.contains("NOT A RESULT"));
    assert!(html(&sound).unwrap().contains("<body>"));
    assert_eq!(table_for_terminal(&sound, WIDTH_MAX), table(&sound, WIDTH_MAX));
}

#[test]
fn a_comparison_that_is_not_valid_says_that_first() {
    let bad = Comparison { valid: true, ..comparison(super::fixture::Shape { failed_checks: 2, ..SOUND }) };
    let Comparison { paths, mut plan, environment, .. } = bad;
    plan.repeats_done = 1;
    let found = conclude(paths, plan, environment, Vec::new(), &[], (String::new(), Duration::ZERO));
    assert!(found.verdict.starts_with("Not valid: dnfs"), "{}", found.verdict);
}

#[test]
fn each_caveat_stands_once_after_the_figures_and_those_of_no_result_are_dim_on_a_terminal_alone() {
    let found = concluded(|_, plan| plan.repeats_done = 1);
    let plain = table(&found, WIDTH_MAX);
    assert!(plain.find("note: a note to be read").unwrap() > plain.find("orders/min").unwrap(), "{plain}");
    for caveat in ["a note to be read", "one run", "Direct NFS: "] {
        assert_eq!(plain.matches(caveat).count(), 1 + usize::from(caveat == "one run"), "{caveat}: {plain}");
    }
    assert!(!plain.contains('\x1b'));
    let shown = table_for_terminal(&found, WIDTH_MAX);
    assert!(shown.lines().any(|line| line.starts_with("\x1b[2mpath ") && line.ends_with("\x1b[22m")), "{shown}");
    assert!(shown.lines().next().is_some_and(|line| line.starts_with("NOT A RESULT")), "the sentence is not dim");
    assert_eq!(shown.replace("\x1b[2m", "").replace("\x1b[22m", ""), plain);
    let page = html(&found).unwrap();
    let notes = page.find("<li>a note to be read</li>").unwrap();
    assert!(notes > page.find("class=\"tiles\"").unwrap());
}

#[test]
fn block_reads_from_the_page_cache_beside_those_from_a_filer_say_so_wherever_they_stand() {
    let found = concluded(|_, _| ());
    let text = table(&found, WIDTH_MAX);
    let note = "block reads of local may be answered by this host's page cache, those of dnfs cross to a filer";
    assert!(text.contains("50 (may be cached)") && text.contains("50 (filer)"), "{text}");
    assert!(text.replace("\n  ", " ").contains(note), "{text}");
    for shown in [html(&found).unwrap().replace("&#39;", "'"), markdown(&found)] {
        assert!(shown.contains(note) && shown.contains(" (may be cached)") && shown.contains(" (filer)"));
    }
    assert!(!text.contains("mostly not the page cache's"), "{text}");
    let slow =
        concluded(|paths, _| paths.iter_mut().filter_map(|path| path.block_read_us.as_mut()).for_each(|read| read.mean = 505.0));
    let slow = table(&slow, WIDTH_MAX).replace("\n  ", " ");
    assert!(slow.contains("; a mean above 100 us, as of local, is mostly not the page cache's"), "{slow}");
    let alike = concluded(|paths, _| paths.iter_mut().for_each(|path| path.caching_class = Some(CachingClass::Direct)));
    assert!(!table(&alike, WIDTH_MAX).contains("page cache"), "{}", table(&alike, WIDTH_MAX));
}

#[test]
fn a_filer_whose_processor_time_is_not_counted_is_said_beside_the_cost() {
    let counted = concluded(|_, _| ());
    assert!(counted.verdict.ends_with("x the CPU per order."), "{}", counted.verdict);
    let without = concluded(|paths, _| {
        with_cpu(paths, |cpu| {
            cpu.by_owner.remove("filer");
        });
    });
    assert!(without.verdict.ends_with("x the CPU per order without the filer's own CPU."), "{}", without.verdict);
}

#[test]
fn a_named_directory_that_a_server_serves_is_said_and_so_is_processor_time_that_is_not_counted() {
    let served_by = |by: &str, is_counted| {
        let served = Served { by: by.to_owned(), is_counted };
        concluded(move |paths, _| paths[0].runs.iter_mut().for_each(|run| run.served = Some(served.clone())))
    };
    let found = served_by("process 7 and a server at 127.0.0.1:3260 (process 9)", true);
    assert!(found.verdict.ends_with("x the CPU per order."), "{}", found.verdict);
    let note = found.notes.iter().find(|note| note.contains("process 9")).unwrap();
    assert!(note.starts_with("local: the files were served by process 7 and") && note.contains("as the filer's"), "{note}");
    let elsewhere = served_by("a server at 192.0.2.1:2049", false);
    assert!(elsewhere.verdict.ends_with("x the CPU per order without the filer's own CPU."), "{}", elsewhere.verdict);
    assert!(elsewhere.notes.iter().any(|note| note.contains("is not in the processor time")), "{:?}", elsewhere.notes);
}
