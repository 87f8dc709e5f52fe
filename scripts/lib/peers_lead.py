# SPDX-License-Identifier: Apache-2.0
"""Zeroth's lead over its peers, as the README's table: each load at the largest number of ranks that it ran on."""

from lib import markdown, page, peers, peers_table
from lib.peers import SOURCES, read  # noqa: F401  of the same files

NAME, TITLE = "lead", "Beside its peers, at a glance"
PART = peers.NAME  # the part of scripts/record.sh
PICTURES = ()
SAYS_HOW = False  # its document says that once


def claims(_):
    return []  # the peers' own section has them


def pictures(_):
    return {}


def as_markdown(everything, _):
    header, rows = _table(everything)
    return "\n".join(["Tokens per second over those of the fastest variant of each peer, and peak memory per rank above an idle "
                      "process (lean: with a malloc that gives back at once what is freed):\n",
                      markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows]),
                      f"{markdown.plain('; '.join(_loads(everything)))}.  ",
                      *(f"{markdown.plain(f'{kept.maker}: {kept.processor}')}.  " for kept in everything)]) + "\n"


def as_html(everything):
    return page.table(*_table(everything), names=3)


def _table(everything):
    """The cells without stage 0's speed and memory."""
    header = ["", "load", "ranks", *peers_table.SPEED_HEADER[1:], *peers_table.MEMORY_HEADER[2:]]
    rows = [[f"{kept.maker}, {precision}", load, str(ranks), *peers_table.speed(found, (load, ranks))[1:],
             *peers_table.memory(found, (load, ranks))[2:]]
            for kept in everything for precision, found in kept.by_precision.items()
            for load, ranks in _most_ranks(found).items()]
    return header, rows


def _most_ranks(found):
    return {load: max(ranks for name, ranks in found.settings if name == load) for load, _ in found.settings}


def _loads(everything):
    return dict.fromkeys(words for kept in everything for found in kept.by_precision.values() for words in found.loads.values())
