# SPDX-License-Identifier: Apache-2.0
"""Tensor ranks of Zeroth compared with DTensor and Megatron-Core, from the file of bench/peers/tensor.py."""

import re
from dataclasses import dataclass

from lib import benchmarks, markdown, page
from lib.loads import description
from lib.records import read_document

own = benchmarks.own("tensor_table")

NAME, TITLE = "tensor", "Tensor parallelism"
SOURCES, PICTURES = ("tensor.json",), ()
SPEED_WORDS = "Tokens per second; of DTensor and Megatron-Core the fastest variant, which is in brackets:"
MEMORY_WORDS = "Peak memory in MiB per rank above an idle process, of DTensor and Megatron-Core the leanest variant's:"
AIMS_WORDS = "The aims, and what was measured:"


@dataclass
class Kept:
    where: str  # machine and versions of the measurement
    tables: list  # (words, header, rows)
    failures: list
    problems: list  # losses that are not Zeroth's
    bounds: dict  # bounds of loss differences, by precision


def read(folder):
    document = read_document(folder / SOURCES[0])
    document.one_of("benchmark", ("tensor",))
    loads, bounds = document.record("loads"), document.record("loss_bounds")
    runs = [_run(record, loads, bounds) for record in document.records("runs")]
    if not runs:
        document.fail("runs is empty")
    summary = own.summarise(runs)
    if document.list("summary") != summary:
        document.fail("summary is not what its runs make")
    masks = [_masks(record) for record in document.records("masks")]
    tables = [(SPEED_WORDS, *own.cells(summary, own.SPEED)), (MEMORY_WORDS, *own.cells(summary, own.MEMORY)),
              (AIMS_WORDS, *own.aims(summary, masks))]
    failures = [f"{failure.text('load')}, {failure.text('precision')}, round {failure.count('round')}: {failure.text('contender')} did "
                f"not run: {failure.text('error').strip().splitlines()[-1]}" for failure in document.records("failures")]
    return Kept(_where(document, loads), tables, failures, own.wrong_losses(runs, bounds.fields), bounds.fields)


def _run(record, loads, bounds):
    return {"contender": record.text("contender"), "load": record.one_of("load", tuple(loads.fields)),
            "precision": record.one_of("precision", tuple(bounds.fields)), "round": record.count("round"),
            "tokens_per_s": record.number("tokens_per_s", above=0), **record.losses_and_peaks()}


def _masks(record):
    return {"case": record.text("case"), "values_per_second": record.number("values_per_second", above=0)}


def _where(document, loads):
    machine, versions = document.record("machine"), document.record("versions")
    memory = re.sub(r"^(\d+) kB$", lambda found: f"{int(found[1]) / 2**20:.0f} GiB", machine.text("memory"))
    told = ", ".join(f"{name} {versions.text(name)}" for name in sorted(versions.fields))
    rounds, of_peers = document.count("rounds", 1), document.count("peer_rounds", 1)
    return (f"{machine.text('processor')} ({machine.text('instructions')}), {machine.count('cores', 1)} cores, {memory}, "
            f"{machine.text('system')}; Zeroth {document.text('zeroth')}, {told}; "
            f"{_rounds(rounds)}{'' if of_peers == rounds else f', of peers {_rounds(of_peers)}'}. "
            f"{'; '.join(description(name, loads.record(name)) for name in loads.fields)}; two micro-batches a step.")


def _rounds(count):
    return "one round" if count == 1 else f"median of {count} rounds"


def claims(kept):
    agree = ", ".join(f"{bound:g} in {precision}" for precision, bound in kept.bounds.items())
    return [(False, problem) for problem in kept.problems] or [(True, f"The losses of all contenders agree, within {agree}.")]


def pictures(_):
    return {}


def as_markdown(kept, _):
    lines = [f"{markdown.plain(kept.where)}\n"]
    for words, header, rows in kept.tables:
        lines += [f"{words}\n", markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows])]
    lines += [f"- {markdown.plain(failure)}" for failure in kept.failures] + ([""] if kept.failures else [])
    return "\n".join(lines + [markdown.plain(sentence) for _, sentence in claims(kept)]) + "\n"


def as_html(kept):
    failures = "".join(page.note(failure) for failure in kept.failures)
    return page.claims(claims(kept)) + page.note(kept.where) + failures + "".join(
        page.note(words) + page.table(header, rows, names=2) for words, header, rows in kept.tables)
