"""Runs side by side, as one HTML file that needs nothing else: no script, no font, no network."""

from html import escape

from lib import charts, table
from lib.runs import CATEGORIES

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --line: #d9dde2;
  --parameters: #2f6db3; --gradients: #c2571a; --optimizer: #1b7f67; --slots: #8e4ba8; --scratch: #68717c;
  --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1c2128; --ink: #e6eaef; --soft: #9aa5b1;
  --line: #333b45; --parameters: #4f8fd9; --gradients: #d9743a; --optimizer: #2f9e83; --slots: #ab6cc4;
  --scratch: #87919d; --good: #4cc26a; --bad: #ff6b6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1040px; padding: 40px 24px 64px; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 44px 0 4px; }
p { margin: 4px 0 14px; } .soft, p.note { color: var(--soft); } p.note { font-size: 14px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin: 26px 0 18px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 18px; }
.card b { display: block; font-size: 26px; line-height: 1.25; letter-spacing: -0.01em; }
.card span { color: var(--soft); font-size: 14px; display: block; }
ul.claims { list-style: none; padding: 0; margin: 0; }
ul.claims li::before { content: "\\2713"; color: var(--good); font-weight: 700; margin-right: 10px; }
ul.claims li.failed::before { content: "\\2717"; color: var(--bad); } ul.claims li.failed { color: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; font-size: 14px; margin: 8px 0 10px; }
.legend i { display: inline-block; width: 13px; height: 13px; border-radius: 3px; margin-right: 7px;
  vertical-align: -1.5px; }
svg { display: block; width: 100%; min-width: 620px; height: auto; overflow: visible; font: 13px system-ui,
  -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
svg text { fill: var(--ink); } svg .axis, svg .soft { fill: var(--soft); } svg .strong { font-weight: 600; }
svg .inside.measured { fill: #ffffff; font-size: 12px; } svg .inside.planned { font-size: 12px; }
.grid { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.planned { fill-opacity: 0.22; stroke-width: 1; } text.planned { fill-opacity: 1; stroke: none; }
rect.compute, i.compute { fill: var(--parameters); background: var(--parameters); }
rect.exposed, i.exposed { fill: var(--gradients); background: var(--gradients); }
.paper { fill: var(--page); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; margin-top: 10px; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; } th { color: var(--soft); font-weight: 600; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; } td:first-child { font-weight: 600; }
tr.planned td { border-top: 1px solid var(--line); color: var(--soft); }
tr.planned td:first-child { color: var(--ink); }
"""
STYLE += "".join(f"rect.{c}, i.{c} {{ fill: var(--{c}); stroke: var(--{c}); background: var(--{c}); }}\n"
                 for c in CATEGORIES)
STYLE += "".join(f".curve.run{i} {{ stroke: var(--{c}); }} i.run{i} {{ background: var(--{c}); }}\n"
                 for i, c in enumerate(("parameters", "gradients", "optimizer", "ink", "slots", "scratch")))


def as_html(runs, title):
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="soft">{escape(facts(runs[0]))}</p>
<ul class="claims">{_claims(runs)}</ul>
<div class="cards">{"".join(_card(run, runs[0]) for run in runs)}</div>

<h2>Memory per rank</h2>
<p class="note">Outlined: planned before the first allocation. Filled: the measured peak. The rank that holds most.</p>
{_legend((category, category) for category in CATEGORIES)}
<div class="scroll">{charts.memory(runs)}</div>

<h2>Loss</h2>
<p class="note">Equal curves lie on each other: the first is drawn widest, the last thinnest.</p>
{_legend((run.label, f"run{index % 6}") for index, run in enumerate(runs))}
<div class="scroll">{charts.loss(runs)}</div>

<h2>Time per step</h2>
<p class="note">Exposed communication is what the compute thread waited for; the rest ran beside it. Stages ran one after
another here; bench/ measures them in turns.</p>
{_legend((("compute, hidden communication", "compute"), ("exposed communication", "exposed")))}
<div class="scroll">{charts.time(runs)}</div>

<h2>All figures</h2>
<p class="note">Memory in MiB per rank. Saved: against {escape(runs[0].label)}.</p>
<div class="scroll">{_table(runs)}</div>
</body>
</html>
"""


def facts(run):
    told = run.facts
    model = told.get("model", {})
    known = []
    if model:
        known.append("GPT-2 with {layers} layers, {heads} heads, {channels} channels, context {context}"
                     .format_map(model))
    if "world" in told:
        known.append(f"{told['world']} ranks")
    known.append(f"{len(run.steps)} steps")
    if "data" in told:
        known.append(f"text: {told['data']['path']}")
    return " · ".join(known)


def _claims(runs):
    return "".join(f'<li{"" if holds else " class=failed"}>{escape(sentence)}</li>'
                   for holds, sentence in table.claims(runs))


def _card(run, baseline):
    total = run.bytes("measured_peak", "total") / table.MIB
    second = "the baseline" if run is baseline else f"{table.saving(run, baseline)} saved"
    return (f'<div class="card"><span>{escape(run.label)}</span><b>{total:.1f} MiB</b><span>per rank, {second}</span>'
            f'<span>{run.settled("tokens_per_s"):,.0f} tokens/s</span></div>')


def _legend(entries):
    items = "".join(f'<span><i class="{name}"></i>{escape(label)}</span>' for label, name in entries)
    return f'<div class="legend">{items}</div>'


def _table(runs):
    header, body = table.rows(runs)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = "".join(f'<tr class="{row[1]}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                    for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
