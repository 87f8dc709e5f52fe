# SPDX-License-Identifier: Apache-2.0
"""Mutants: sources in which one line is changed, as a mistake would change it."""

import dataclasses
import random
import re

# Sources that decide bits and order.
SOURCES = ("optim/*.cpp", "optim/*.hpp", "src/shard/*.cpp", "src/shard/*.hpp", "src/stage/*.cpp", "src/stage/*.hpp",
           "src/engine/*.cpp", "src/engine/*.hpp", "src/device/rank_fold.cpp", "src/device/fold_*.hpp", "src/device/element_*.cpp",
           "src/device/element_*.hpp", "src/comm/local/*.cpp", "src/comm/local/*.hpp", "src/comm/host_communicator.cpp",
           "src/comm/operations.hpp", "src/comm/staging.*", "src/comm/transaction.*", "cuda/kernels/*.hpp")

_EXCHANGED = {
    " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " % ": " / ", " < ": " <= ", " <= ": " < ", " > ": " >= ",
    " >= ": " > ", " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", " += ": " -= ", " -= ": " += ",
    "std::min": "std::max", "std::max": "std::min", "true": "false", "false": "true"}
_OPERATOR = re.compile(r" (?:[-+*/%<>]|<=|>=|==|!=|&&|\|\||\+=|-=) |\bstd::(?:min|max)\b|\b(?:true|false)\b")
_NUMBER = re.compile(r"(?<![\w.'])(\d+)(U?L?)(?![\w.'])")
_ARGUMENTS = re.compile(r"(?<=[\w>][({])([\w.:>-]+), ([\w.:>-]+)(?=[)}])")
_STATEMENT = re.compile(r"^\s*(?!return\b|using\b|break\b|continue\b|throw\b|goto\b|delete\b|typename\b)"
                        r"(?:[\w.:>\[\]*-]+(?: [-+*/|&^]?= .*|\(.*\))|\+\+.*|--.*);$")
_NO_CODE = re.compile(r"^\s*(?:#|//|using\b|namespace\b|static_assert\b|template\b|extern\b|friend\b|assert\()")
_LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'')


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    path: str
    line: int  # from 1
    kind: str
    before: str
    after: str  # the whole line

    def applied_to(self, text):
        lines = text.split("\n")
        if lines[self.line - 1] != self.before:
            raise ValueError(f"{self.path}:{self.line} is not what this mutant was made of")
        lines[self.line - 1] = self.after
        return "\n".join(lines)


def _code_of(line):
    """`line` with blanks in place of strings and comments, so that these are not changed."""
    blank = _LITERAL.sub(lambda found: "\x00" * len(found.group()), line)
    comment = blank.find("//")
    return blank if comment < 0 else blank[:comment] + "\x00" * (len(blank) - comment)


def _changes(line):
    """(kind, changed line) for every possible change of the line."""
    code = _code_of(line)
    for found in _OPERATOR.finditer(code):
        yield "operator", line[:found.start()] + _EXCHANGED[found.group()] + line[found.end():]
    for found in _NUMBER.finditer(code):
        for other in {int(found.group(1)) + 1, max(int(found.group(1)) - 1, 0)} - {int(found.group(1))}:
            yield "constant", f"{line[:found.start()]}{other}{found.group(2)}{line[found.end():]}"
    for found in _ARGUMENTS.finditer(code):
        if found.group(1) != found.group(2):
            yield "arguments", f"{line[:found.start()]}{found.group(2)}, {found.group(1)}{line[found.end():]}"
    if _STATEMENT.match(code.rstrip("\x00 ")):
        yield "dropped", line[:len(line) - len(line.lstrip())] + ";"


def mutants_of(path, text):
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not _NO_CODE.match(line):
            found += [Mutant(path, number, kind, line, after) for kind, after in _changes(line)]
    return sorted(set(found))


def chosen(mutants, seed, number):
    """`number` mutants, the same ones for the same seed. A file is as likely as it has lines that can be changed."""
    return random.Random(seed).sample(mutants, min(number, len(mutants)))
