# SPDX-License-Identifier: Apache-2.0
"""How far Zeroth is before its peers, in both precisions, as the README's table."""

from html import escape

from lib import markdown, page, peers
from lib.table import MIB

NAME, TITLE = "lead", "Beside its peers, at a glance"
SOURCES = (*peers.FP32.SOURCES, *peers.BF16.SOURCES)
PICTURES = ()
# What is held against what: a stage of Zeroth, the peer that shards as much, what readers call them.
PAIRS = (("zeroth0", "ddp", "stage 0 over DDP"), ("zeroth3", "fsdp2", "stage 3 over FSDP2"),
         ("zeroth3", "deepspeed3", "stage 3 over DeepSpeed 3"))


def read(folder):
    return {section.precision: section.read(folder) for section in (peers.FP32, peers.BF16)}


def claims(_):
    return []  # those of the peers' own sections


def pictures(_):
    return {}


def as_markdown(data, _):
    header, rows = _table(data)
    return "\n".join(["Tokens per second over those of the fastest variant of each peer, and peak memory per rank:\n",
                      markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows]),
                      *(f"{precision}: {markdown.plain(found.facts[0])}; {markdown.plain(found.facts[1])}.  "
                        for precision, found in data.items())]) + "\n"


def as_html(data):
    facts = "".join(page.note(escape(f"{precision}: {fact}", quote=False)) for precision, found in data.items()
                    for fact in found.facts)
    return facts + page.table(*_table(data), names=3)


def _table(data):
    header = ["", "load", "ranks", *(words for _, _, words in PAIRS), "MiB per rank: stage 3", "DDP", "FSDP2", "DeepSpeed 3"]
    rows = [[precision, load, str(ranks), *(_times(everyone, *pair[:2]) for pair in PAIRS),
             *(_least(everyone, system) for system in ("zeroth3", "ddp", "fsdp2", "deepspeed3"))]
            for precision, found in data.items() for (load, ranks), everyone in found.summary.items()]
    return header, rows


def _of(everyone, system):
    """A system's variants that its documentation knows, and for Zeroth its ranks as threads."""
    names = {peers.contender(system, variant) for variant in peers.SYSTEMS.get(system, ("", ("threads",)))[1]
             if variant not in ("lean", "mpi")}
    return [figures for name, figures in everyone.items() if name in names]


def _times(everyone, ours, theirs):
    mine, others = _of(everyone, ours), _of(everyone, theirs)
    if not mine or not others:
        return "-"
    return f"{mine[0].tokens_per_s / max(figures.tokens_per_s for figures in others):.2f} x"


def _least(everyone, system):
    found = _of(everyone, system)
    return f"{min(figures.peak_bytes for figures in found) / MIB:,.0f}" if found else "-"
