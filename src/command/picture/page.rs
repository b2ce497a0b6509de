//! The picture as one page: no script, no request to anywhere, light and dark, and a table for those who
//! cannot see it.

use super::{Drawing, scale, summary};
use crate::command::local_time::show_long;
use crate::model::duration;
use crate::model::time::WallTime;
use crate::report::escape;
use crate::verdict::story::ToldRun;
use crate::verdict::timeline::{Lane, LaneKind, Window};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::time::Duration;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2024;--dim:#5b6570;--ground:#fff;--lane:#eef1f4;--held:#2f7d5b;\
--perhaps:#a9cdbd;--skip:#c77700;--failed:#c0322b;--paused:#8a93a0}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--dim:#9aa4af;--ground:#15181c;--lane:#23282e;--held:#4fb286;\
--perhaps:#2d5746;--skip:#f0a73a;--failed:#ff6b61;--paused:#6b7480}}\
body{margin:0 auto;max-width:90rem;padding:1rem;background:var(--ground);color:var(--ink);\
font:16px/1.45 system-ui,sans-serif}\
h1{font-size:1.3rem;margin:.2rem 0}p{margin:.3rem 0 1rem;color:var(--dim)}\
.lane{display:grid;grid-template-columns:minmax(6rem,12rem) 1fr;gap:.2rem 1rem;align-items:center;margin:.5rem 0}\
.name{font-weight:600;overflow-wrap:anywhere}.sum{grid-column:2;color:var(--dim);font-size:.85rem}\
svg{display:block;width:100%;height:1.6rem;background:var(--lane);border-radius:3px}\
.held{fill:var(--held)}.perhaps{fill:var(--perhaps)}.skip{fill:var(--skip)}.failed{fill:var(--failed)}\
.paused{fill:var(--paused);opacity:.6}.unlogged{fill:var(--ground);stroke:var(--dim);stroke-dasharray:4}rect:hover{opacity:.75}\
.scale{position:relative;height:1.4rem;font-size:.8rem;color:var(--dim)}\
.scale span{position:absolute;white-space:nowrap;border-left:1px solid var(--dim);padding-left:.25rem}\
.kind{display:inline-block}.key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em;vertical-align:-.1em}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;margin-top:1.5rem}\
caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--lane);white-space:nowrap}\
@media(max-width:40rem){.lane{grid-template-columns:1fr}.sum{grid-column:1}.few{display:none}}";

/// Widths of a lane in the units of its drawing.
const WIDE: u64 = 10_000;

/// The whole page.
pub(super) fn page(what: &Drawing, lanes: &[Lane], window: Window, made: WallTime) -> String {
    let title = format!("{} from {} to {}", what.head, show_long(window.from), show_long(window.to));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p { "Made at " (show_long(made)) " by " (what.by) "." (key()) }
                @for lane in lanes { (row(lane, window)) }
                div.lane { div {} (times(window)) }
                (table(lanes, window))
            }
        }
    }
    .into_string()
}

fn key() -> Markup {
    let kinds = [
        ("held", "held"),
        ("perhaps", "perhaps held: last seen before, found gone after"),
        ("skip", "others were skipped"),
        ("failed", "ended with a failure"),
        ("paused", "paused"),
        ("unlogged", "nothing logged"),
    ];
    html! {
        @for (class, text) in kinds {
            " "
            span.kind {
                svg.key viewBox="0 0 1 1" aria-hidden="true" { rect class=(class) width="1" height="1" {} }
                (text)
            }
        }
    }
}

fn row(lane: &Lane, window: Window) -> Markup {
    let name = escape(lane.title.as_bytes(), 200);
    let sum = summary(lane, window);
    let label = format!("{name}: {sum}");
    let lines = lane.most(window).max(1);
    let height = 100 / lines;
    html! {
        div.lane {
            div.name { (name) }
            svg role="img" aria-label=(label) viewBox=(format!("0 0 {WIDE} 100")) preserveAspectRatio="none" {
                @if let Some(from) = lane.known_from.filter(|from| *from > window.from) {
                    (bar("unlogged", 0, x(from, window), (0, 100), "nothing logged"))
                }
                @for (from, to) in &lane.paused {
                    (bar("paused", x(*from, window), x(*to, window), (0, 100), "paused"))
                }
                @for (place, (run, span)) in lane.within(window).enumerate() {
                    @let at = (place % lines * height, height);
                    @let title = title(run, lane);
                    @if span.perhaps > span.surely {
                        (bar("perhaps", x(span.surely, window), x(span.perhaps, window), at, &title))
                    }
                    (bar("held", x(span.from, window), x(span.surely, window), at, &title))
                    @if let (Some(first), Some(last)) = (run.first_away, run.last_away) {
                        @if last >= window.from && first <= window.to {
                            (bar("skip", x(first, window), x(last, window), (at.0 + height * 3 / 4, height / 4), &title))
                        }
                    }
                    @if let Some(end) = run.over_by().filter(|end| run.failed() && *end >= window.from) {
                        (bar("failed", x(end, window).saturating_sub(30), x(end, window), at, &title))
                    }
                }
            }
            div.sum { (sum) }
        }
    }
}

/// A time's place in a lane.
fn x(time: WallTime, window: Window) -> u64 {
    (time.0.clamp(window.from.0, window.to.0) - window.from.0) * WIDE / window.length()
}

/// One bar, wide enough to be seen and pointed at.
fn bar(class: &str, from: u64, to: u64, (y, height): (usize, usize), title: &str) -> Markup {
    let width = to.saturating_sub(from).max(20);
    let from = from.min(WIDE - width.min(WIDE));
    html! {
        rect class=(class) x=(from) y=(y) width=(width) height=(height) { title { (title) } }
    }
}

/// Who, from when to when, status, token: what the table says, too.
fn title(run: &ToldRun, lane: &Lane) -> String {
    let [who, begun, end, length, status, away, token] = fields(run, lane);
    format!(
        "{}: {who}, from {begun}, {end}, {length}, {status}, {away}, token {token}",
        escape(lane.title.as_bytes(), 200)
    )
}

fn fields(run: &ToldRun, lane: &Lane) -> [String; 7] {
    let comm =
        run.comm.as_deref().map_or_else(String::new, |comm| format!(" ({})", escape(comm.as_bytes(), 40)));
    let lives = run.over_by().is_none() && lane.live.contains(&run.token);
    let (at_least, at_most) = run.held_s();
    let show = |seconds: u64| duration::show(Duration::from_secs(seconds));
    let end = match run.over_by() {
        _ if lives => "still held".to_owned(),
        None => format!("last seen {}", show_long(run.seen)),
        Some(over) if over == run.held_until() => format!("ended {}", show_long(over)),
        Some(over) => format!("last seen {}, gone by {}", show_long(run.seen), show_long(over)),
    };
    let length = match at_most {
        Some(most) if most == at_least => show(most),
        Some(most) => format!("{} to {}", show(at_least), show(most)),
        None => format!("{} at least", show(at_least)),
    };
    [
        run.pid.map_or_else(|| "a run".to_owned(), |pid| format!("pid {pid}{comm}")),
        show_long(run.begun),
        end,
        length,
        run.status.map_or_else(|| "status not known".to_owned(), |status| format!("status {status}")),
        format!("{} skipped", run.turned_away),
        if lane.kind == LaneKind::Lease { "-".to_owned() } else { run.token.to_string() },
    ]
}

fn times(window: Window) -> Markup {
    let marks = scale::marks(window, 12);
    html! {
        div.scale aria-hidden="true" {
            @for (place, (time, text)) in marks.iter().enumerate() {
                @let left = format!("left:{:.2}%", x(*time, window) as f64 / 100.0);
                // A narrow page has room for every third.
                @if x(*time, window) < WIDE * 90 / 100 {
                    span.few[place % 3 != 0] style=(left) { (text) }
                }
            }
        }
    }
}

fn table(lanes: &[Lane], window: Window) -> Markup {
    let heads = ["Name", "Who", "From", "Until", "Held for", "Status", "Skipped meanwhile", "Token"];
    html! {
        div.wide {
            table {
                caption { "Every run in this time" }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for lane in lanes {
                        @for (run, _) in lane.within(window) {
                            tr {
                                td { (escape(lane.title.as_bytes(), 200)) }
                                @for field in fields(run, lane) { td { (field) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
