//! Properties of the page, the CSV and the Markdown for any record.

use results::compare::Comparison;
use results::judgement::ArrayLatency;

use super::example::{self, Size};
use super::fixture::{self, SOUND, Shape};
use crate::judge::arm_on_a_medium;

const SMALL: Size = Size { seconds: 30, repeats: 3, media: true };

/// The record that the first version wrote on a real host.
const FIRST: &str = include_str!("../../../millrace/tests/records/first-slice.json");

fn page(comparison: &Comparison) -> String {
    super::html(comparison).unwrap()
}

fn records() -> Vec<Comparison> {
    let bare = Comparison { schema: 1, kind: "compare".into(), ..Comparison::default() };
    let first = serde_json::from_str(FIRST).unwrap();
    let failed = fixture::comparison(Shape { filer_share: 0.2, failed_checks: 2, ..SOUND });
    let regimes = example::with_regimes(example::comparison(7, Size { media: false, ..SMALL }));
    vec![example::comparison(7, SMALL), regimes, fixture::comparison(SOUND), failed, first, bare]
}

#[test]
fn page_fetches_nothing_whatever_the_record() {
    for record in records() {
        let page = page(&record);
        for word in ["http://", "https://", "src=", "@import", "url(", "<link", "<iframe"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}

#[test]
fn picture_names_every_measured_arm_and_needs_no_page_around_it() {
    for record in records() {
        let picture = super::svg(&record);
        assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
        assert!(picture.contains("--paper") && !picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
        for path in record.paths.iter().filter(|path| path.oets_per_minute.is_some() && path.name.len() < 20) {
            assert!(picture.contains(&path.name), "{}", path.name);
        }
    }
}

#[test]
fn no_drawing_holds_a_figure_that_is_none() {
    for record in records() {
        let page = page(&record);
        let drawn = page.split("<script").next().unwrap();
        for word in ["NaN", "inf\"", "inf ", "-0.0 ", "undefined"] {
            assert!(!drawn.contains(word), "{word}: {}", &drawn[drawn.find(word).unwrap().saturating_sub(200)..][..300]);
        }
    }
}

#[test]
fn embedded_record_reads_back_as_the_same_comparison() {
    for mut record in records() {
        record.notes.push("</script><script>alert(1)</script> \u{2028} <!--".into());
        let page = page(&record);
        let begin = page.find("id=\"results\">").unwrap() + "id=\"results\">".len();
        let end = page[begin..].find("</script>").unwrap() + begin;
        let again: Comparison = serde_json::from_str(&page[begin..end]).unwrap();
        // Reading a figure back may change its last bit, so both sides are read back.
        let plain: Comparison = serde_json::from_str(&super::json(&record).unwrap()).unwrap();
        assert_eq!(again, plain);
    }
}

#[test]
fn text_of_the_record_is_never_markup() {
    let mut record = example::comparison(7, SMALL);
    let evil = "<img onerror=alert(1)>'\"&";
    record.verdict = evil.into();
    record.notes = vec![evil.into()];
    record.environment.database_settings.insert(evil.into(), evil.into());
    record.tunings.get_mut("tuned").unwrap().insert(evil.into(), evil.into());
    record.ladder[1].name = evil.into();
    record.ladder[1].arm = evil.into();
    record.curve[0].arm = evil.into();
    record.predictions[0].held_out = evil.into();
    let mut record = example::with_regimes(record);
    for regime in &mut record.regimes {
        (regime.name, regime.verdict, regime.reason) = (evil.into(), evil.into(), Some(evil.into()));
        (regime.notes, regime.load, regime.medium) = (vec![evil.into()], evil.into(), Some(evil.into()));
    }
    let further = record.regimes.iter_mut().flat_map(|regime| &mut regime.paths);
    for path in record.paths.iter_mut().chain(further) {
        path.arm = evil.into();
        path.reason = Some(evil.into());
        path.medium = Some(evil.into());
        path.target = Some(evil.into());
        if let Some(bottleneck) = &mut path.bottleneck {
            (bottleneck.kind, bottleneck.next, bottleneck.evidence) = (evil.into(), evil.to_owned(), evil.to_owned());
        }
        for run in &mut path.runs {
            run.step_s.insert(evil.into(), 1.0);
            run.conform.as_mut().unwrap().items[0].name = evil.into();
        }
        if let Some(cpu) = &mut path.cpu {
            cpu.by_owner.insert(evil.into(), results::compare::OwnerCpu::default());
        }
    }
    assert!(!page(&record).contains("<img"));
    assert!(!super::markdown(&record).contains("<img"));
}

#[test]
fn example_fills_every_section_and_a_bare_record_only_what_it_has() {
    let page_of = |record: &Comparison| page(record);
    let full = page_of(&example::comparison(7, SMALL));
    let ids = |page: &str| {
        let parts = page.split("<section id=\"").skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = [
        "orders",
        "traffic",
        "findings",
        "cpu",
        "reads",
        "responses",
        "paths",
        "series",
        "curve",
        "ladder",
        "tunings",
        "proof",
        "disclosure",
        "record",
    ];
    assert_eq!(ids(&full), all);
    let bare = page_of(&Comparison { schema: 1, kind: "compare".into(), ..Comparison::default() });
    assert_eq!(ids(&bare), ["disclosure", "record"]);
    for id in ids(&full) {
        assert!(full.contains(&format!("href=\"#{id}\"")), "{id} is not in the contents");
    }
}

#[test]
fn every_regime_has_its_figures_apart_in_every_form_of_the_report() {
    let own = example::comparison(7, Size { media: false, ..SMALL });
    let record = example::with_regimes(own.clone());
    let (html, text, markdown, csv) = (page(&record), super::table(&record, 100), super::markdown(&record), super::csv(&record));
    for id in ["regimes", "regime-array", "regime-fixed-load"] {
        assert!(html.contains(&format!("<section id=\"{id}\"")) && html.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    for form in [&html, &text, &markdown] {
        let form = form.split_whitespace().collect::<Vec<_>>().join(" ");
        for fact in
            ["array, one round: dnfs tuned", "One round, NOT A RESULT", "24,000 orders per minute offered", "1:02 of the budget"]
        {
            assert!(form.contains(fact), "{fact}: {form}");
        }
    }
    let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(long.is_empty(), "{long:#?}");
    let of = |regime: &str| csv.lines().filter(|line| line.ends_with(&format!(",{regime}"))).count();
    assert!(of("array") > 100 && of("array") == of("fixed load"), "{}", of("array"));
    assert_eq!(super::csv(&own).lines().count() - 1, csv.lines().skip(1).filter(|line| line.ends_with(',')).count());
    // With one scenario, there is no section about others.
    assert!(!page(&own).contains("Scenarios side by side") && !super::table(&own, 100).contains("regime"));
}

#[test]
fn rehearsal_and_the_disclaimer_are_said_and_never_the_protected_name() {
    let sound = fixture::comparison(SOUND);
    let page = page(&sound);
    for fact in ["<strong>REHEARSAL</strong>", "not comparable to published TPC-C results", "6,000 ± 50", "shared_buffers"] {
        assert!(page.contains(fact), "{fact} is missing");
    }
    assert!(page.contains("not built yet: &lt;later&gt;") && !page.contains("tpmC"));
    let own = Comparison { rehearsal: false, ..sound };
    assert!(!super::html(&own).unwrap().contains("<strong>REHEARSAL"));
}

#[test]
fn every_form_of_the_report_says_where_the_processors_stop_carrying_a_ladder() {
    let paths = [(8, 8.1, 0.2), (32, 8.3, 0.7), (64, 10.0, 0.96)].map(|(users, ms, busy)| arm_on_a_medium(users, ms, busy));
    let record = Comparison { paths: paths.into(), ..fixture::comparison(SOUND) };
    for text in [page(&record), super::table(&record, 100), super::markdown(&record)] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("at 64 users it is 0.80 of that and the processors are 96 % busy: they carry no more"), "{text}");
    }
    assert!(page(&record).contains("Throughput against in flight / latency, load by load"));
}

#[test]
fn latency_the_storage_tells_stands_beside_ours_in_every_form_of_the_report() {
    let mut record = fixture::comparison(SOUND);
    let without = [page(&record), super::table(&record, 100), super::markdown(&record), super::csv(&record)];
    record.paths[1].array_latency = Some(ArrayLatency { source: "prometheus:an-array".into(), mean_us: 8_123.0 });
    let with = [page(&record), super::table(&record, 100), super::markdown(&record), super::csv(&record)];
    let said = [
        "prometheus:an-array: 8.12 ms",
        "a block read takes 50 µs by the database and 8.12 ms",
        "and 8.12 ms by the storage",
        "array_latency_mean,us,8123,",
    ];
    for ((with, without), said) in with.iter().zip(&without).zip(said) {
        assert!(with.contains(said) && !without.contains(said), "{said}: {with}");
    }
}

#[test]
fn waiting_for_a_processor_stands_beside_what_it_costs_where_the_kernel_told() {
    let mut record = example::comparison(7, SMALL);
    let (with, csv) = (page(&record), super::csv(&record));
    assert!(with.contains("database waited for a processor") && csv.contains(",processor_queue.database,s,8.4,"), "{csv}");
    record.paths.iter_mut().flat_map(|path| &mut path.runs).for_each(|run| run.processor_queue_s.clear());
    assert!(!page(&record).contains("database waited for a processor</th>") && !super::csv(&record).contains("processor_queue"));
}

#[test]
fn arm_that_is_not_valid_is_marked_wherever_its_figure_stands_large() {
    let page = page(&fixture::comparison(Shape { filer_share: 0.2, ..SOUND }));
    assert!(page.contains("✗ not valid") && page.contains("proof of path failed") && page.contains("fill void"));
    assert!(page.contains("must not be used"));
}

#[test]
fn record_of_the_first_version_is_read_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(super::RECORD), FIRST).unwrap();
    let record = crate::record::read(directory.path()).unwrap();
    let page = page(&record);
    for fact in ["58,056 ± 3,950", "41,308 ± 3,996", "296 µs", "log writes"] {
        assert!(page.contains(fact), "{fact}");
    }
    assert!(super::table(&record, 100).contains("41,308 ± 3,996"));
    let by_file = crate::record::read(&directory.path().join(super::RECORD)).unwrap();
    assert_eq!(by_file, record);
}

#[test]
fn what_is_no_record_is_refused_by_its_name_and_fault() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(super::RECORD);
    let cases = [("", "EOF"), ("[1]", "invalid"), ("{\"schema\":1}", "missing field")];
    for (text, fault) in cases {
        std::fs::write(&file, text).unwrap();
        let error = crate::record::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("results.json") && error.contains(fault), "{error}");
    }
    let strange = Comparison { schema: 9, kind: "compare".into(), ..Comparison::default() };
    std::fs::write(&file, super::json(&strange).unwrap()).unwrap();
    assert!(crate::record::read(directory.path()).unwrap_err().to_string().contains("schema 9"));
    assert!(crate::record::read(&directory.path().join("none")).is_err());
}

#[test]
fn csv_has_the_same_columns_in_every_line_and_every_second() {
    let record = example::comparison(7, Size { media: false, ..SMALL });
    let csv = super::csv(&record);
    for line in csv.lines() {
        assert_eq!(line.matches(',').count() - quoted_commas(line), 13, "{line}");
    }
    assert_eq!(csv.lines().filter(|line| line.contains(",orders,1,") && !line.contains(",,orders")).count(), 4 * 3 * 30);
    let oets = csv.lines().find(|line| line.starts_with("dnfs tuned,") && line.contains(",oets,1/min,")).unwrap();
    let value: f64 = oets.split(',').nth(11).unwrap().parse().unwrap();
    let mean = record.paths[3].oets_per_minute.as_ref().unwrap().mean;
    assert!((value - mean).abs() < 1e-6, "{oets}");
}

/// Commas inside quotes.
fn quoted_commas(line: &str) -> usize {
    line.split('"').skip(1).step_by(2).map(|part| part.matches(',').count()).sum()
}

#[test]
fn csv_cells_cannot_become_formulas_or_new_lines() {
    let mut record = fixture::comparison(SOUND);
    record.paths[0].arm = "=cmd|' /C calc'!A0\"\n,".into();
    let csv = super::csv(&record);
    assert!(csv.contains("\"'=cmd|' /C calc'!A0\"\"\n,\",local,"), "{}", &csv[..400]);
}

#[test]
fn markdown_has_the_verdict_the_tables_and_the_conditions() {
    let text = super::markdown(&fixture::comparison(SOUND));
    for fact in
        ["> **REHEARSAL", "| local | measured | 6,000 ± 50 |", "iscsi was skipped: not built yet: &lt;later>", "## Conditions"]
    {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let rows: Vec<usize> = text.lines().filter(|line| line.starts_with("| ")).map(|line| line.matches(" | ").count()).collect();
    assert_eq!(rows.len(), 15, "{text}");
}

#[test]
fn an_hour_of_seconds_is_drawn_small() {
    let hour = example::comparison(7, Size { seconds: 3_600, repeats: 3, media: false });
    let page = page(&hour);
    let drawn = page.split("<script").next().unwrap().len();
    assert!(drawn < 1 << 20, "{drawn} bytes of page without the record");
}

/// Relative luminance of `#rrggbb` (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let channel = |place: usize| {
        let value = f64::from(u8::from_str_radix(&colour[1 + 2 * place..3 + 2 * place], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
}

#[test]
fn every_colour_stands_out_from_the_ground_it_is_used_on() {
    let style = include_str!("page.css");
    let themes: Vec<&str> = style.split(":root {").skip(1).map(|part| part.split('}').next().unwrap()).collect();
    assert_eq!(themes.len(), 3, "light, dark, print");
    for theme in themes {
        let colour = |name: &str| {
            let at = theme.find(&format!("--{name}: ")).unwrap_or_else(|| panic!("{name} in {theme}"));
            theme[at..].split(": ").nth(1).unwrap().split(';').next().unwrap()
        };
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(colour(a)), luminance(colour(b)));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let inks = ["ink", "faint", "link", "good", "bad", "hue0", "hue1", "hue2", "hue3", "hue4", "hue5"];
        for ink in inks {
            for ground in ["paper", "card"] {
                assert!(contrast(ink, ground) >= 4.5, "{ink} on {ground}: {:.2} in {theme}", contrast(ink, ground));
            }
        }
        for hue in 0..6 {
            assert!(contrast("on-hue", &format!("hue{hue}")) >= 4.5, "text on hue{hue} in {theme}");
        }
        assert!(contrast("note-ink", "note") >= 4.5);
    }
}

/// A colour as a dichromat sees it, in linear light: protan and deutan as simplified by Viénot, Brettel and Mollon (1999).
fn seen(colour: &str, matrix: [[f64; 3]; 3]) -> [f64; 3] {
    let linear = [0usize, 1, 2].map(|place| {
        let value = f64::from(u8::from_str_radix(&colour[1 + 2 * place..3 + 2 * place], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    matrix.map(|row| row.iter().zip(linear).map(|(factor, part)| factor * part).sum::<f64>().clamp(0.0, 1.0))
}

#[test]
fn neighbouring_hues_stay_apart_for_the_colour_blind() {
    let deutan = [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]];
    let protan = [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]];
    let style = include_str!("page.css");
    for theme in style.split(":root {").skip(1).map(|part| part.split('}').next().unwrap()) {
        let hue = |place: usize| {
            let at = theme.find(&format!("--hue{place}: ")).unwrap();
            theme[at..].split(": ").nth(1).unwrap().split(';').next().unwrap()
        };
        for matrix in [deutan, protan] {
            for (a, b) in [(0, 1), (0, 2), (1, 2), (0, 3)] {
                let (x, y) = (seen(hue(a), matrix), seen(hue(b), matrix));
                // Perceived lightness and blueness, each on a scale of approximately 1.
                let apart: f64 = x.iter().zip(y).map(|(x, y)| (x.cbrt() - y.cbrt()).powi(2)).sum::<f64>().sqrt();
                assert!(apart > 0.15, "hue{a} and hue{b} are {apart:.2} apart for a dichromat in {theme}");
            }
        }
    }
}
