#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source and script names the licence in its first lines.

    scripts/check_license.py          names those that do not; exit status 1 if there are any
    scripts/check_license.py --fix    adds the line to them
"""

import argparse
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
TAG = "SPDX-License-Identifier: Apache-2.0"
# The start of a comment, by suffix or name. Data, documents and pictures fall under LICENSE.
COMMENT = {".cpp": "//", ".hpp": "//", ".cu": "//", ".in": None, ".py": "#", ".sh": "#", ".cmake": "#",
           ".supp": "#", ".yaml": "#", ".yml": "#", "CMakeLists.txt": "#", "run": "#"}


def comment_of(name):
    path = pathlib.PurePath(name)
    if path.suffix == ".in":  # the name before .in tells a template's language
        return comment_of(path.stem)
    return COMMENT.get(path.name) or COMMENT.get(path.suffix)


def has_tag(text):
    return any(TAG in line for line in text.split("\n", 3)[:3])


def with_tag(text, comment):
    if text.startswith("#!"):
        first, rest = text.split("\n", 1)
        return f"{first}\n{comment} {TAG}\n{rest}"
    return f"{comment} {TAG}\n{text}"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="add the line where it is missing")
    given = parser.parse_args(arguments)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True,
                           check=True).stdout.split("\0")
    sources = {name: comment_of(name) for name in names if name and comment_of(name) and (REPOSITORY / name).is_file()}
    missing = [name for name in sources if not has_tag((REPOSITORY / name).read_text(encoding="utf-8"))]
    for name in missing:
        if given.fix:
            file = REPOSITORY / name
            file.write_text(with_tag(file.read_text(encoding="utf-8"), sources[name]), encoding="utf-8")
        else:
            print(f"error: {name}: none of its first three lines has {TAG} (scripts/check_license.py --fix adds it)",
                  file=sys.stderr)
    if missing and not given.fix:
        return 1
    print(f"== licence: {len(sources)} sources and scripts name it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
