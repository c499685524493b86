//! The page's style: light and dark by the reader's preference, print without colour loss.

/// Style sheet of the page.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--faint:#5b6570;--rule:#d5dbe1;--bar:#2f6db3;--error:#111;\
--p1:#2f6db3;--p2:#86b3e0;--p3:#c9772b;--p4:#eeb783;--p5:#4f8f4f;--p6:#a6d1a6;--bad:#b3261e;--good:#2e7d32}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--paper:#15181c;--faint:#9aa4ae;--rule:#333a42;--bar:#6ea8e6;\
--error:#fff;--p1:#6ea8e6;--p2:#3a618c;--p3:#e39a55;--p4:#8c5a2b;--p5:#7cc07c;--p6:#3f6b3f;--bad:#ff8a80;--good:#81c784}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:960px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.35rem}h2{font-size:1.05rem;margin-top:2rem;border-bottom:1px solid var(--rule)}\
.rehearsal{font-weight:600;border:1px solid var(--rule);padding:.4rem .7rem}.verdict{font-size:1.15rem}\
.faint{color:var(--faint);font-size:.9rem}.bad{color:var(--bad);font-weight:600}.good{color:var(--good)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}\
th:first-child,td:first-child{text-align:left}td.words{text-align:left}svg{width:100%;height:auto}\
svg text{fill:var(--ink);font:13px system-ui,sans-serif}svg .label{text-anchor:end}.bar{fill:var(--bar)}\
.error{stroke:var(--error);stroke-width:1.5;fill:none}.axis{stroke:var(--rule);fill:none}\
.part-database-user{fill:var(--p1)}.part-database-sys{fill:var(--p2)}.part-filer-user{fill:var(--p3)}\
.part-filer-sys{fill:var(--p4)}.part-driver-user{fill:var(--p5)}.part-driver-sys{fill:var(--p6)}\
polyline{fill:none;stroke-width:1.5}.line-local{stroke:var(--p1)}.line-dnfs{stroke:var(--p3)}\
.line-iscsi,.line-knfs,.line-fc{stroke:var(--p5)}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}\
pre{overflow:auto;max-height:30rem;font-size:.8rem;border:1px solid var(--rule);padding:.5rem}\
@media print{body{margin:0;max-width:none}pre{max-height:none}}";
