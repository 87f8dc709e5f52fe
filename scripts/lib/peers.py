# SPDX-License-Identifier: Apache-2.0
"""Zeroth beside its peers, as a block of docs/benchmarks.md and as a part of a page."""

from html import escape

from lib import markdown, page, peers_chart, style, svg
from lib.peers_file import contender, own, read_peers
from lib.table import MIB

BASE = "zeroth3"
# What is compared, in order: the program, what readers call it, its variants.
SYSTEMS = {"zeroth3": ("Zeroth 3", ("threads", "mpi")), "ddp": ("DDP", ("default", "tuned")),
           "fsdp2": ("FSDP2", ("default", "tuned", "lean")),
           "deepspeed1": ("DeepSpeed 1", ("default", "tuned")), "deepspeed2": ("DeepSpeed 2", ("default", "tuned")),
           "deepspeed3": ("DeepSpeed 3", ("default", "tuned", "lean"))}
PEERS = tuple(system for system in SYSTEMS if system != BASE)


class Section:
    """Of one precision, from one file of bench/peers/run.py."""

    def __init__(self, name, title, precision):
        self.NAME, self.TITLE, self.precision = name, title, precision
        self.SOURCES, self.PICTURES = (f"{name}.json",), (f"{name}.svg",)

    def read(self, folder):
        return read_peers(folder / self.SOURCES[0], self.precision)

    def claims(self, peers):
        if peers.problems:
            return [(False, problem) for problem in peers.problems]
        bound = own.LOSS_BOUNDS[self.precision]
        return [(True, f"All losses of all steps in {self.precision} agree: Zeroth's to the last digit, the peers' within {bound:g}.")]

    def pictures(self, peers):
        return {self.PICTURES[0]: svg.alone(peers_chart.chart(peers, _rows()), style.DRAWING)}

    def as_markdown(self, peers, folder):
        speed, memory = (markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows])
                         for header, rows in (_speed(peers), _memory(peers)))
        return "\n".join([
            markdown.picture(f"Tokens per second and peak memory per rank of Zeroth, DDP, FSDP2 and DeepSpeed in {self.precision}",
                             f"{folder}/{self.PICTURES[0]}"),
            f"{self.precision}: {markdown.plain('; '.join(peers.facts))}; median of {peers.rounds} rounds. "
            "[bench/README.md](../bench/README.md) says what is compared and why it is fair.\n",
            "Tokens per second, and how many times as fast as the fastest variant of each peer:\n", speed,
            "Peak memory per rank above an idle process, and as a part of each peer's, at its defaults or tuned, where it takes "
            "less (and of that with a malloc that gives back at once what is freed, which is slower):\n", memory,
            *(f"- {markdown.plain(line)}" for line in failure_lines(peers)), *([""] if peers.failures else []),
            *(markdown.plain(sentence) for _, sentence in self.claims(peers))]) + "\n"

    def as_html(self, peers):
        header = ["load", "ranks", "", "rounds", "tokens/s", "range", "Zeroth 3 is", "peak MiB/rank", "final loss"]
        rows = [[load, str(ranks), name, str(f.rounds), f"{f.tokens_per_s:,.0f}", f"{f.range[0]:,.0f} - {f.range[1]:,.0f}",
                 own.number(f.times_as_fast, ".2f") + " x", f"{f.peak_bytes / MIB:,.0f}", f"{f.final_loss:.6f}"]
                for (load, ranks), everyone in peers.summary.items() for name, f in everyone.items()]
        failed = "".join(f"<li>{escape(line)}</li>" for line in failure_lines(peers))
        return ("".join(page.note(fact) for fact in peers.facts) + page.claims(self.claims(peers)) +
                page.chart(peers_chart.chart(peers, _rows())) +
                "<h3>How many times as fast Zeroth is as the fastest variant</h3>\n" + page.table(*_speed(peers), names=2) +
                "<h3>Peak memory as a part of the variants'</h3>\n" + page.table(*_memory(peers), names=2) +
                (f"<h3>What did not run</h3>\n<ul>{failed}</ul>\n" if failed else "") +
                "<h3>All contenders</h3>\n" + page.table(header, rows, names=3))


FP32 = Section("peers", "Beside its peers in fp32", "fp32")
BF16 = Section("peers_bf16", "Beside its peers in bf16", "bf16")


def _rows():
    """(system, variant, contender, whether it is ours) in order."""
    return [(name, variant, contender(system, variant), system == BASE)
            for system, (name, variants) in SYSTEMS.items() for variant in variants]


def failure_lines(peers):
    return [f"{load}, {ranks} ranks, {name}: {len(errors)} of {peers.rounds} rounds did not run: {errors[0]}"
            for (load, ranks), failed in peers.failures.items() for name, errors in failed.items()]


def _times(ratio):
    return None if ratio is None else f"{ratio:.2f} x"


def _speed(peers):
    def least_lead(_, theirs):
        return _times(min((f.times_as_fast for f in theirs.values() if f.times_as_fast is not None), default=None))
    return _against(peers, "tokens/s", lambda f: f"{f.tokens_per_s:,.0f}", least_lead)


def _memory(peers):
    """Lean ones are told apart: no documentation advises them, and they pay with speed."""
    def parts(ours, theirs):
        documented = [f.peak_bytes for variant, f in theirs.items() if variant != "lean"]
        told = [_times(ours.peak_bytes / min(documented))] if documented else []
        if "lean" in theirs:
            told.append(f"(lean {_times(ours.peak_bytes / theirs['lean'].peak_bytes)})")
        return " ".join(told)
    return _against(peers, "MiB per rank", lambda f: f"{f.peak_bytes / MIB:,.0f}", parts)


def _against(peers, what, shown, compared):
    """A table of Zeroth at stage 3 against each peer's variants, per load and ranks."""
    header = ["load", "ranks", f"Zeroth 3, {what}", *(f"{SYSTEMS[peer][0]}" for peer in PEERS)]
    rows = []
    for load, ranks in peers.settings:
        everyone = peers.summary.get((load, ranks), {})
        ours = everyone.get(contender(BASE, "threads"))
        row = [load, str(ranks), shown(ours) if ours else "did not run"]
        for peer in PEERS:
            names = {variant: contender(peer, variant) for variant in SYSTEMS[peer][1]}
            theirs = {variant: everyone[name] for variant, name in names.items() if name in everyone}
            told = compared(ours, theirs) if ours and theirs else None
            failed = any(name in peers.failures.get((load, ranks), {}) for name in names.values())
            row.append(told if told is not None else "did not run" if failed and not theirs else "-")
        rows.append(row)
    return header, rows
