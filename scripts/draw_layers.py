#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws which layers of the library, and which folders of comm, include which others, into docs/design.md.

    scripts/draw_layers.py            draws them again
    scripts/draw_layers.py --check    only checks that the drawing is up to date; exit status 1 if not

The drawing shows includes that exist; tests/headers/layers.cmake allows more. An arrow between layers is left out if a
path of other arrows replaces it.
"""

import argparse
import pathlib
import re
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = "docs/design.md"
BEGIN, END = "<!-- layers: begin -->\n", "<!-- layers: end -->\n"
SOURCES = ["include/zeroth/**/*.hpp", "src/**/*.hpp", "src/**/*.cpp", "optim/**/*.hpp", "optim/**/*.cpp",
           "cuda/**/*.hpp", "cuda/**/*.cu"]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


class NotLayered(Exception):
    """Layers include each other in a cycle."""


def moved_headers(root):
    """Public headers that belong to a folder of comm, according to layers.cmake."""
    text = (root / "tests/headers/layers.cmake").read_text()
    return dict(re.findall(r"^set\(layer_of_(\S+) (\w+)\)", text, re.MULTILINE))


def layer_of(path, moved):
    """The layer of a path below include/ or src/: "core", "comm", "comm_store"; None if it has no layer."""
    if path in moved:
        return moved[path]
    parts = path.removeprefix("zeroth/").removeprefix("tool/").split("/")
    if len(parts) < 2:
        return None  # zeroth.hpp includes all layers
    if parts[0] == "cuda":
        return "device"
    if parts[0] == "comm" and len(parts) == 3:
        return "comm_" + parts[1]
    return parts[0]


def arrows(root):
    """Pairs of layers: the first includes the second."""
    moved = moved_headers(root)
    found = set()
    for pattern in SOURCES:
        for file in root.glob(pattern):
            path = re.sub("^(include|src)/", "", file.relative_to(root).as_posix())
            layer = layer_of(path, moved)
            used = {layer_of(include, moved) for include in INCLUDE.findall(file.read_text())}
            found |= {(layer, other) for other in used if layer and other and other != layer}
    return found


def reached(start, found):
    """All layers that `start` includes, directly or indirectly."""
    seen, ahead = set(), [start]
    while ahead:
        here = ahead.pop()
        new = {b for a, b in found if a == here} - seen
        seen |= new
        ahead += new
    return seen


def reduced(found):
    """`found` without the arrows that paths of other arrows replace."""
    for layer in sorted({a for a, _ in found}):
        if layer in reached(layer, found):
            raise NotLayered(f"{layer} includes itself through {', '.join(sorted(reached(layer, found) - {layer}))}")
    return {(a, b) for a, b in found if not any(b in reached(c, found) for d, c in found if d == a and c != b)}


def chart(found, name):
    lines = sorted(f"  {a}[{name(a)}] --> {b}[{name(b)}]" for a, b in found)
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```", ""])


def drawing(root):
    found = arrows(root)
    whole = {(a.split("_")[0], b.split("_")[0]) for a, b in found}
    layers = reduced({(a, b) for a, b in whole if a != b})
    folders = {(a, b) for a, b in found if a.startswith("comm") and b.startswith("comm")}
    reduced(folders)  # these have no cycles either
    return (chart(layers, lambda layer: layer) + "\nInside comm, all arrows:\n\n" +
            chart(folders, lambda layer: "kernel" if layer == "comm" else layer.replace("_", "/")))


def with_drawing(page, new):
    before, rest = page.split(BEGIN)
    return before + BEGIN + new + END + rest.split(END)[1]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if the drawing is out of date")
    parser.add_argument("--root", type=pathlib.Path, default=REPOSITORY, help="the repository to draw")
    options = parser.parse_args(arguments)
    page = options.root / PAGE
    old = page.read_text()
    try:
        new = with_drawing(old, drawing(options.root))
    except NotLayered as error:
        print(f"draw_layers.py: {error}", file=sys.stderr)
        return 1
    if new != old and options.check:
        print(f"{PAGE}: the drawing of the layers is out of date: run scripts/draw_layers.py", file=sys.stderr)
        return 1
    if new != old:
        page.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
