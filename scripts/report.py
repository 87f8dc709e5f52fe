#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns measurements into tables, pictures and pages. Needs Python and nothing else.

Runs of train_gpt side by side:

    scripts/report.py "stage 0=out/stage0.jsonl" "stage 3=out/stage3.jsonl" --html out/report.html

Each argument is LABEL=FILE, where FILE is what train_gpt --report wrote. Savings are against the first run. With

    --resumed FIRST.jsonl SECOND.jsonl --weights STRAIGHT RESUMED

it also shows a run in two parts, the second resumed from a checkpoint of the first. STRAIGHT has the weights of an
uninterrupted run, and RESUMED those of this run.

All measurements in a folder, as scripts/record.sh keeps them:

    scripts/report.py --measured docs/measured --pictures docs/pictures --documents README.md docs/benchmarks.md \
        --html out/report.html

rewrites the documents' blocks and the pictures. A block whose file is missing is left empty, and reported. With --check
nothing is written; the files that would change are listed.

Exit status: 1 if losses differ, measured memory is not the planned memory, another claim does not hold, or --check
finds a difference; 2 if a file is invalid.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import demo, page, publish, resumed, table
from lib.records import ReportError
from lib.runs import read_run


def labelled(argument):
    label, separator, path = argument.partition("=")
    if not (label and separator and path):
        raise argparse.ArgumentTypeError(f'"{argument}" is not LABEL=FILE')
    return label, path


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=labelled, metavar="LABEL=FILE")
    parser.add_argument("--resumed", nargs=2, metavar="FILE", help="reports of a run in two parts; needs --weights")
    parser.add_argument("--weights", nargs=2, metavar="FILE", help="of an uninterrupted run, and of the one in two parts")
    parser.add_argument("--measured", type=pathlib.Path, metavar="FOLDER", help="of kept measurements, instead of runs")
    parser.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write a self-contained page")
    parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="write the charts as SVG files")
    parser.add_argument("--documents", type=pathlib.Path, metavar="FILE", nargs="+", default=[],
                        help="put each block between its marks, in the document that has them; needs --pictures")
    parser.add_argument("--check", action="store_true", help="write no pictures and no document; list those that would change")
    parser.add_argument("--title", help="of the page")
    options = parser.parse_args(arguments)
    if bool(options.runs) == bool(options.measured):
        parser.error("give runs as LABEL=FILE, or --measured FOLDER")
    if bool(options.resumed) != bool(options.weights) or (options.resumed and options.measured):
        parser.error("--resumed and --weights go together, with runs as LABEL=FILE")
    if options.runs and (options.pictures or options.documents or options.check):
        parser.error("--pictures, --documents and --check go with --measured")
    if (options.documents or options.check) and not options.pictures:
        parser.error("--documents and --check need --pictures: where the pictures are")
    return options


def compare(options):
    """Reports runs side by side."""
    runs = [read_run(label, path) for label, path in options.runs]
    gone_on = resumed.read(options.resumed, options.weights) if options.resumed else None
    found = table.claims(runs) + ([resumed.claim(gone_on, runs)] if gone_on else [])
    print(table.as_text([*runs, gone_on.run] if gone_on else runs, found), end="")
    if options.html:
        text = page.whole(options.title or "Zeroth, stage by stage", demo.as_html(runs, gone_on))
        options.html.write_text(text, encoding="utf-8")
        print(f"The same with charts: {options.html}")
    return found


def publish_kept(options):
    """Makes blocks, pictures and the page from the kept measurements."""
    found, left_out = publish.present(options.measured)
    for sentence in left_out:
        print(sentence)
    claims = publish.claims(found)
    if options.pictures:
        wanted = publish.files(found, options.documents, options.pictures)
        changed = publish.differences(wanted)
        for path in changed:
            print(f"{path} {'is not what the files make' if options.check else 'is made again'}")
        if options.check:
            claims += [(False, f"{path} is not what the files make") for path in changed]
        else:
            publish.write(wanted)
    if options.html:
        options.html.parent.mkdir(parents=True, exist_ok=True)
        text = publish.as_html(found, options.title or "Zeroth: memory, speed and scale")
        options.html.write_text(text, encoding="utf-8")
        print(f"All charts: {options.html}")
    for holds, sentence in claims:
        print(sentence if holds else f"FAILED: {sentence}")
    return claims


def main(arguments=None):
    options = parsed(arguments)
    try:
        claims = publish_kept(options) if options.measured else compare(options)
    except (ReportError, OSError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    return 0 if all(holds for holds, _ in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
