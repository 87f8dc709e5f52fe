# SPDX-License-Identifier: Apache-2.0
"""Saves and loads of Zeroth, PyTorch DCP and DeepSpeed, from the file of bench/peers/checkpoint.py."""

from dataclasses import dataclass

from lib import benchmarks, markdown, page
from lib.records import read_document

own = benchmarks.own("checkpoint_table")

NAME, TITLE = "checkpoints", "Checkpoints"
SOURCES, PICTURES = ("checkpoints.json",), ()
WORDS = ("85 million parameters in fp32 with AdamW, 1.02 GB of states; four ranks save and load, two others load what four saved. Each "
         "figure is over what the same processes took to write, read or copy as many bytes past the system's cache, in the same turn; "
         "seconds are in brackets, all are medians.")


@dataclass
class Kept:
    where: str  # machine and versions of the measurement
    header: list
    rows: list
    failures: list


def read(folder):
    document = read_document(folder / SOURCES[0])
    document.one_of("benchmark", ("checkpoint_peers",))
    machine, versions = document.record("machine"), document.record("versions")
    runs = [_run(record) for record in document.records("runs")]
    if not runs:
        document.fail("runs is empty")
    summary = own.summarise(runs)
    if document.list("summary") != summary:
        document.fail("summary is not what its runs make")
    failures = [f"{own.NAMES[failure.one_of('system', tuple(own.NAMES))]}, round {failure.count('round')}: "
                f"{failure.text('error').strip().splitlines()[-1]}" for failure in document.records("failures")]
    told = ", ".join(f"{name} {versions.text(name)}" for name in sorted(versions.fields))
    where = (f"{machine.text('processor')} ({machine.text('instructions')}), {machine.count('cores')} cores, "
             f"{machine.text('system')}; Zeroth {document.text('zeroth')}, {told}; {document.count('rounds', 1)} rounds")
    return Kept(where, *own.cells(summary), failures)


def _run(record):
    record.one_of("system", tuple(own.NAMES))
    for name, yardstick in own.RATIOS.items():
        if name in record and yardstick in record:
            record.number(name, 0)
            record.number(yardstick, 0)
    if "async_save_bytes" in record:
        record.count("async_save_bytes")
    return record.fields


def claims(_):
    return []


def pictures(_):
    return {}


def as_markdown(kept, _):
    lines = [f"{markdown.plain(kept.where)}. {WORDS}\n",
             markdown.table(kept.header, [[markdown.plain(cell) for cell in row] for row in kept.rows])]
    return "\n".join([*lines, *(f"- {markdown.plain(failure)}" for failure in kept.failures)]).rstrip("\n") + "\n"


def as_html(kept):
    return page.table(kept.header, kept.rows, names=1)
