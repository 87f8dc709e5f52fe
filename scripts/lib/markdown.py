# SPDX-License-Identifier: Apache-2.0
"""Blocks of Markdown between two marks of a document."""

import re

from lib.records import ReportError


def plain(text):
    """`text` on one line, escaped so that a reader sees its characters as they are."""
    return re.sub(r"([\\`*_~\[\]<>|&])", r"\\\1", " ".join(str(text).split()))


def table(header, rows):
    """A table. Cells are Markdown: pass text from a file through plain()."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def picture(words, path):
    return f"![{words}]({path})\n"


def marks(name):
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def replaced(document, name, block):
    """`document` with `block` between the marks of that name."""
    begin, end = marks(name)
    if document.count(begin) != 1 or document.count(end) != 1 or document.index(begin) > document.index(end):
        raise ReportError(f'the document must hold "{begin}" and "{end}" once, in this order')
    head, rest = document.split(begin)
    return f"{head}{begin}\n{block}{end}{rest.split(end)[1]}"
