# SPDX-License-Identifier: Apache-2.0
"""Zeroth beside its peers on each maker's processors, as a block of docs/benchmarks.md and as a part of a page."""

from html import escape

from lib import markdown, page, peers_chart, peers_table, style, svg
from lib.peers_file import PRECISIONS, contender, own, read_kept
from lib.peers_table import SYSTEMS
from lib.table import MIB

NAME, TITLE = "peers", "Beside its peers"
SOURCES, PICTURES = ("peers_*.json",), ("peers_*.svg",)
SPEED_WORDS = "Tokens per second, and how many times those of the fastest variant of each peer:"
MEMORY_WORDS = ("Peak memory per rank above an idle process. Lean: with a malloc that gives back at once what is freed, which is "
                "slower:")


def read(folder):
    return [read_kept(path) for path in sorted(folder.glob(SOURCES[0]))]


def claims(everything):
    """Claims about losses: the maker's processors on which they disagree, or that they agree on all."""
    found = []
    for precision in PRECISIONS:
        makers = {kept.maker: kept.by_precision[precision] for kept in everything if precision in kept.by_precision}
        wrong = [(False, f"{maker}: {problem}") for maker, peers in makers.items() for problem in peers.problems]
        something_ran = any(peers.summary for peers in makers.values())
        found += wrong or ([(True, own.agreement(precision))] if something_ran else [])
    return found


def pictures(everything):
    return {_picture(kept, precision): svg.alone(peers_chart.chart(peers, _bars()), style.DRAWING)
            for kept in everything for precision, peers in kept.by_precision.items()}


def facts(kept):
    products = ", ".join(f"{precision} by {peers.math}" for precision, peers in kept.by_precision.items())
    rounds = max(peers.rounds for peers in kept.by_precision.values())
    told = "one round" if rounds == 1 else f"median of {rounds} rounds"
    return f"{kept.processor}, {kept.machine}; {kept.versions}; Zeroth's products in {products}; {told}."


def as_markdown(everything, folder):
    return "\n".join([part for kept in everything for part in _of_maker(kept, folder)] +
                     [f"{markdown.plain(sentence)}  " for _, sentence in claims(everything)]) + "\n"


def _of_maker(kept, folder):
    yield f"### {markdown.plain(kept.maker)}\n"
    yield f"{markdown.plain(facts(kept))} [bench/README.md](../bench/README.md) says what is compared and why it is fair.\n"
    for words, cells in ((SPEED_WORDS, _speed), (MEMORY_WORDS, _memory)):
        header, rows = cells(kept)
        yield f"{words}\n"
        yield markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows])
    failures = failure_lines(kept)
    yield from (f"- {markdown.plain(line)}" for line in failures)
    if failures:
        yield ""
    for precision in kept.by_precision:
        yield markdown.picture(f"Tokens per second and peak memory per rank of Zeroth, DDP, FSDP2 and DeepSpeed in {precision}",
                               f"{folder}/{_picture(kept, precision)}")


def as_html(everything):
    return page.claims(claims(everything)) + "".join(_maker_as_html(kept) for kept in everything)


def _maker_as_html(kept):
    header = ["", "load", "ranks", "", "rounds", "tokens/s", "range", "Zeroth 3 is", "peak MiB/rank", "final loss"]
    rows = [[precision, load, str(ranks), name, str(f.rounds), f"{f.tokens_per_s:,.0f}",
             f"{f.range[0]:,.0f} - {f.range[1]:,.0f}", own.number(f.slower_than[own.BASE], ".2f") + " x",
             f"{f.peak_bytes / MIB:,.0f}", f"{f.final_loss:.6f}"]
            for precision, peers in kept.by_precision.items()
            for (load, ranks), everyone in peers.summary.items() for name, f in everyone.items()]
    failed = "".join(f"<li>{escape(line)}</li>" for line in failure_lines(kept))
    return (f"<h3>{escape(kept.maker)}</h3>\n{page.note(facts(kept))}"
            f"<h4>{SPEED_WORDS}</h4>\n{page.table(*_speed(kept), names=3)}"
            f"<h4>{MEMORY_WORDS}</h4>\n{page.table(*_memory(kept), names=3)}" +
            (f"<h4>What did not run</h4>\n<ul>{failed}</ul>\n" if failed else "") +
            "".join(f"<h4>In {precision}</h4>\n{page.chart(peers_chart.chart(peers, _bars()))}"
                    for precision, peers in kept.by_precision.items()) +
            "<h4>All contenders</h4>\n" + page.table(header, rows, names=4))


def failure_lines(kept):
    return [f"{own.told((precision, load, ranks))}, {name}: {len(errors)} of {peers.rounds} rounds did not run: {errors[0]}"
            for precision, peers in kept.by_precision.items()
            for (load, ranks), failed in peers.failures.items() for name, errors in failed.items()]


def _picture(kept, precision):
    return f"{kept.name}_{precision}.svg"


def _bars():
    """(system, variant, contender, whether it is ours), in the order of the tables."""
    return [(name, variant, contender(system, variant), system in (own.UNSHARDED, own.BASE))
            for system, (name, variants) in SYSTEMS.items() for variant in variants]


def _speed(kept):
    return _rows(kept, peers_table.SPEED_HEADER, peers_table.speed)


def _memory(kept):
    return _rows(kept, peers_table.MEMORY_HEADER, peers_table.memory)


def _rows(kept, header, cells):
    return ["", "load", "ranks", *header], [[precision, load, str(ranks), *cells(peers, (load, ranks))]
                                            for precision, peers in kept.by_precision.items()
                                            for load, ranks in peers.settings]
