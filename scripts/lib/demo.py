# SPDX-License-Identifier: Apache-2.0
"""The demo: train_gpt at stages 0 to 3, as a block of docs/benchmarks.md and as a part of a page."""

from html import escape

from lib import markdown, page, resumed, run_charts, style, svg, table
from lib.runs import CATEGORIES, read_run

NAME, TITLE = "demo", "Stage by stage"
SOURCES = tuple(f"demo/stage{stage}.jsonl" for stage in range(4))
PICTURES = ("memory.svg",)


def read(folder):
    return [read_run(f"stage {stage}", folder / source) for stage, source in enumerate(SOURCES)]


def claims(runs):
    return table.claims(runs)


def pictures(runs):
    return {"memory.svg": svg.alone(run_charts.memory(runs), style.DRAWING)}


def as_markdown(runs, folder):
    """`folder`: where the pictures are, relative to the document."""
    rows = []
    for run in runs:
        held = [table.mib(run.bytes("measured_peak", c)) for c in (*CATEGORIES, "total")]
        rows.append([markdown.plain(run.label), *held, table.saving(run, runs[0]) if run is not runs[0] else "",
                     f"{run.losses[-1]:.9g}", f"{run.settled('tokens_per_s'):,.0f}"])
    return "\n".join([
        markdown.picture("Memory per rank by category, planned and measured", f"{folder}/memory.svg"),
        f"{markdown.plain(facts(runs[0]))}:\n",
        markdown.table(["MiB per rank", *CATEGORIES, "total", "saved", "final loss", "tokens/s"], rows),
        *(sentence for _, sentence in claims(runs))]) + "\n"


def as_html(runs, gone_on=None):
    """`gone_on`: a run that was saved and resumed (lib.resumed), or none."""
    every = [*runs, gone_on.run] if gone_on else runs
    header, body = table.rows(every)
    found = claims(runs) + ([resumed.claim(gone_on, runs)] if gone_on else [])
    return (f'<p class="soft">{escape(facts(runs[0]))}</p>\n' + page.claims(found) +
            f'<div class="cards">{"".join(_card(run, runs[0]) for run in runs)}</div>\n'
            "<h3>Memory per rank</h3>\n" +
            page.note("Outlined: planned before the first allocation. Filled: the measured peak. The rank that holds "
                      "most.") +
            page.chart(run_charts.memory(runs)) +
            "<h3>Loss</h3>\n" +
            page.note("Equal curves lie on each other: the first is drawn widest, the last thinnest.") +
            page.chart(run_charts.loss(every, gone_on.step if gone_on else None)) +
            "<h3>Time per step</h3>\n" +
            page.note("Exposed communication is what the compute thread waited for; the rest ran beside it. Stages ran "
                      "one after another here; bench/ measures them in turns.") +
            page.chart(run_charts.time(runs)) +
            "<h3>All figures</h3>\n" + page.note(f"Memory in MiB per rank. Saved: against {runs[0].label}.") +
            page.table(header, body, names=2, class_of=lambda row: row[1]))


def facts(run):
    known = []
    if run.facts and "model" in run.facts:
        model = run.facts.record("model")
        layers, heads, channels, context = (model.count(key) for key in ("layers", "heads", "channels", "context"))
        known.append(f"GPT-2 with {layers} layers, {heads} heads, {channels} channels, context {context}")
    if run.facts and "world" in run.facts:
        known.append(f"{run.facts.count('world')} ranks")
    known.append(f"{len(run.steps)} steps")
    if run.facts and "data" in run.facts:
        known.append(f"text: {run.facts.record('data').text('path')}")
    return " · ".join(known)


def _card(run, baseline):
    total = run.bytes("measured_peak", "total") / table.MIB
    second = "the baseline" if run is baseline else f"{table.saving(run, baseline)} saved"
    return (f'<div class="card"><span>{escape(run.label)}</span><b>{total:.1f} MiB</b><span>per rank, {second}</span>'
            f'<span>{run.settled("tokens_per_s"):,.0f} tokens/s</span></div>')
