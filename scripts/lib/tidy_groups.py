# SPDX-License-Identifier: Apache-2.0
"""Groups of sources that clang-tidy can check together."""

import dataclasses
import os
import pathlib
import re
import shlex

MOST = 48  # sources per group: larger ones gain little, and make parallel processes finish later
# Options and precompiled headers that only GCC has are errors for clang-tidy. -fno-loop-* control GCC's vectoriser,
# ggc- its memory.
OF_GCC = re.compile(r"-fno-loop-.*|-fpch-preprocess|-Winvalid-pch|--param=ggc-.*")


@dataclasses.dataclass
class Group:
    directory: str
    command: list  # without the source
    sources: list
    file: pathlib.Path  # all of them in one


def of_clang(command):
    """The words of a compile command for clang-tidy, without the source, launchers and outputs."""
    words = shlex.split(command)
    kept, skip = [], 0
    for at, word in enumerate(words):
        if skip:
            skip -= 1
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = 1
        elif word == "-include" and words[at + 1].endswith("cmake_pch.hxx"):
            skip = 1
        elif word not in ("-c", "-MD", "-MMD") and not OF_GCC.fullmatch(word):
            kept.append(word)
    compiler = next(at for at, word in enumerate(kept) if re.search(r"(c\+\+|g\+\+|clang\+\+)(-[0-9]+)?$", word))
    return kept[compiler:]


def commands_of(entries):
    """{source: (folder, words)} of each source's first command."""
    commands = {}
    for entry in entries:
        source = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        words = [word for word in of_clang(entry["command"])
                 if os.path.realpath(os.path.join(entry["directory"], word)) != source]
        commands.setdefault(source, (entry["directory"], words))
    return commands


def make(sources, commands, folder):
    """Groups of sources that share a command, and also a folder if they include files from their own folder. A source
    with main() is a group by itself."""
    alike = {}
    for source in sources:
        path = os.path.realpath(source)
        directory, words = commands[path]
        text = pathlib.Path(path).read_text(encoding="utf-8")
        program = path if defines_main(text) else None
        beside = ("-iquote", os.path.dirname(path)) if includes_beside(text) else ()
        alike.setdefault((directory, beside, tuple(words), program), []).append(source)
    groups = []
    for (directory, beside, words, _), all_of_them in alike.items():
        for begin in range(0, len(all_of_them), MOST):
            groups.append(Group(directory, [*words, *beside], all_of_them[begin:begin + MOST],
                                folder / f"group{len(groups)}.cpp"))
    return groups


def defines_main(text):
    return re.search(r"^int main\(", text, re.MULTILINE) is not None


def includes_beside(text):
    return re.search(r'^#include "[^/"]*"', text, re.MULTILINE) is not None


def text_of(sources):
    """The sources concatenated. They are not included by #include, since some checks look at the main file only."""
    return "".join(f'#line 1 "{source}"\n{pathlib.Path(source).read_text(encoding="utf-8")}\n' for source in sources)


def included_twice(text):
    names = re.findall(r'^#include ([<"][^>"]*[>"])', text, re.MULTILINE)
    return sorted({name for name in names if names.count(name) > 1})
