#!/usr/bin/env python3
"""Puts runs of train_gpt side by side: a table on the terminal and a page of charts.

    scripts/report.py "stage 0=out/stage0.jsonl" "stage 3=out/stage3.jsonl" --html out/report.html

Each argument is LABEL=FILE, where FILE is what train_gpt --report wrote. Savings are against the first run. Ends with 1
if losses differ between the runs or measured memory is not what was planned, with 2 if a file is no report.
"""

import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import page, readme, runs, table  # noqa: E402


def labelled(argument):
    label, separator, path = argument.partition("=")
    if not (label and separator and path):
        raise argparse.ArgumentTypeError(f'"{argument}" is not LABEL=FILE')
    return label, path


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=labelled, metavar="LABEL=FILE")
    parser.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write a self-contained page")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE", help="write the chart of memory as an SVG")
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE",
                        help="put a table between the demo marks of this document; needs --picture")
    parser.add_argument("--title", default="Zeroth, stage by stage", help="of the page")
    options = parser.parse_args(arguments)
    try:
        compared = [runs.read_run(label, path) for label, path in options.runs]
    except runs.ReportError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    if options.readme and not options.picture:
        parser.error("--readme shows a picture: say with --picture where it is")
    print(table.as_text(compared), end="")
    if options.html:
        options.html.write_text(page.as_html(compared, options.title), encoding="utf-8")
        print(f"The same with charts: {options.html}")
    if options.picture:
        options.picture.write_text(readme.as_picture(compared), encoding="utf-8")
    if options.readme:
        picture = os.path.relpath(options.picture, options.readme.parent)
        document = options.readme.read_text(encoding="utf-8")
        try:
            document = readme.replaced(document, readme.as_markdown(compared, picture))
        except runs.ReportError as error:
            print(f"report.py: {options.readme}: {error}", file=sys.stderr)
            return 2
        options.readme.write_text(document, encoding="utf-8")
    return 0 if all(holds for holds, _ in table.claims(compared)) else 1


if __name__ == "__main__":
    sys.exit(main())
