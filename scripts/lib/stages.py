# SPDX-License-Identifier: Apache-2.0
"""Stages at a glance, the README's table: a measured run in fp32 and a simulated one in bf16."""

from html import escape

from lib import demo, markdown, page, table
from lib.records import read_document
from lib.runs import read_run

NAME, TITLE = "stages", "Stages at a glance"
SOURCES = (*demo.SOURCES, "simulated.json", "published.json")
PICTURES = ()  # it shows the demo's picture
SAYS_HOW = False  # its document says that once
GIB = 2**30


def read(folder):
    """(runs of the demo, the record of `zeroth simulate --json`, the record of its errors against published steps)."""
    runs = [read_run(f"stage {stage}", folder / source) for stage, source in enumerate(demo.SOURCES)]
    simulated = read_document(folder / "simulated.json")
    for stage, record in enumerate(simulated.records("stages")):
        if record.count("stage") != stage:
            record.fail(f"stage is {record.count('stage')}; it must be {stage}")
    return runs, simulated, read_document(folder / "published.json")


def claims(_):
    return []  # the demo's


def pictures(_):
    return {}


def as_markdown(data, folder):
    return "\n".join([markdown.picture("Memory per rank by category, planned and measured", f"{folder}/memory.svg"),
                      markdown.table(*_table(data)), markdown.plain(_words(data))]) + "\n"


def as_html(data):
    return page.note(escape(_words(data), quote=False)) + page.table(*_table(data))


def _table(data):
    runs, simulated, _ = data
    header = ["", "fp32, measured: MiB per rank", "saved", "tokens/s",
              "bf16, simulated: GiB per rank", "saved", "tokens/s"]
    stages = simulated.records("stages")
    rows = []
    for run, stage in zip(runs, stages):
        share = 1 - stage.count("total") / stages[0].count("total")
        rows.append([run.label, table.mib(run.bytes("measured_peak", "total")), _saved(table.saving(run, runs[0]), run is runs[0]),
                     f"{run.settled('tokens_per_s'):,.0f}", f"{stage.count('total') / GIB:.2f}",
                     _saved(f"{100 * share:.1f} %", stage is stages[0]), f"{stage.amount('tokens_per_s'):,.0f}"])
    return header, rows


def _saved(words, is_baseline):
    return "" if is_baseline else words


def _words(data):
    runs, simulated, published = data
    model = simulated.record("model").text("name")
    off = f"{published.number('least'):.2f} to {published.number('most'):.2f}"
    return (f"fp32: {demo.facts(runs[0])}, on a CPU of two cores. bf16: zeroth simulate, {model} on {simulated.count('ranks')} "
            f"ranks of {simulated.text('machine')}, master weights in fp32, code that is not compiled. "
            f"Simulated speeds were {off} of {published.count('rows')} published ones (docs/simulate.md).")
