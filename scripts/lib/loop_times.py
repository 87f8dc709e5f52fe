# SPDX-License-Identifier: Apache-2.0
"""Seconds from the records of ninja and ctest, summed by target, source, program and test."""

import collections
import re
import typing
import xml.etree.ElementTree

LOG_HEAD = "# ninja log v"
KINDS = ("precompiled headers", "compilations", "archives", "links", "other")


class NoTimes(Exception):
    """A record is missing, or has an unknown format."""


class Step(typing.NamedTuple):
    """One output of the build."""
    output: str
    kind: str
    target: str
    seconds: float


class Test(typing.NamedTuple):
    name: str
    seconds: float


def step_of(output, seconds):
    """The target and source of ninja's `output`: CMake puts objects into
    <folder>/CMakeFiles/<target>.dir/<source>.o."""
    found = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    if found:
        kind = "precompiled headers" if output.endswith((".gch", ".pch")) else "compilations"
        return Step(output[found.end():].removesuffix(".o"), kind, found.group(1), seconds)
    name = output.rsplit("/", 1)[-1]
    if name.endswith(".a"):
        return Step(name, "archives", name.removeprefix("lib").removesuffix(".a"), seconds)
    if "/" in output and output.split("/")[-2] == "bin" or re.search(r"\.so(\.\d+)*$", name):
        return Step(name, "links", name, seconds)
    return Step(output, "other", name, seconds)


def steps_of(build):
    path = build / ".ninja_log"
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise NoTimes(f"{path}: no log of ninja: {error}") from error
    if not head.startswith(LOG_HEAD):
        raise NoTimes(f"{path}, line 1: {head!r} where {LOG_HEAD!r} and a number were expected")
    last = {}
    for number, line in enumerate(lines, start=2):
        words = line.split("\t")
        if len(words) != 5 or not (words[0].isdigit() and words[1].isdigit()):
            raise NoTimes(f"{path}, line {number}: {line!r} where start, end, time, output and hash were expected")
        start, end, command = int(words[0]), int(words[1]), words[4]
        # A command with several outputs has a line for each.
        last[words[3]] = (start, end, command)
    first_of = {}
    for output, run in last.items():
        first_of.setdefault(run, output)
    return [step_of(output, (end - start) / 1000) for (start, end, _), output in first_of.items()]


def tests_of(build):
    """Tests from the folder's junit files if it has any, otherwise from the costs that ctest orders tests by. May be
    empty."""
    junit = sorted(build.glob("*.xml"), key=lambda path: path.stat().st_mtime)
    last = {}
    for path in junit:
        try:
            root = xml.etree.ElementTree.parse(path).getroot()
        except xml.etree.ElementTree.ParseError as error:
            raise NoTimes(f"{path}: {error}") from error
        last.update({case.get("name"): float(case.get("time")) for case in root.iter("testcase")})
    path = build / "Testing/Temporary/CTestCostData.txt"
    if not last and path.exists():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line == "---":  # the tests that failed follow
                break
            words = line.split()
            if len(words) != 3:
                raise NoTimes(f"{path}, line {number}: {line!r} where name, number of runs and seconds were expected")
            if int(words[1]) > 0:
                last[words[0]] = float(words[2])
    return [Test(name, seconds) for name, seconds in last.items()]


def longest(pairs, count):
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]


def table(title, pairs):
    return [title, *(f"{seconds:10.1f}  {name}" for name, seconds in pairs), ""]


def as_text(steps, tests, count):
    kinds, targets = collections.Counter(), collections.Counter()
    for step in steps:
        kinds[step.kind] += step.seconds
        targets[step.target] += step.seconds
    numbers = collections.Counter(step.kind for step in steps)
    lines = table("Seconds of the build", [(f"{kind} ({numbers[kind]})", kinds[kind]) for kind in KINDS if numbers[kind]]
                  + [(f"all ({len(steps)})", sum(kinds.values()))])
    lines += table(f"The {count} longest targets", longest(targets.items(), count))
    sources = [(f"{step.target}: {step.output}", step.seconds) for step in steps if step.kind == "compilations"]
    lines += table(f"The {count} longest compilations", longest(sources, count))
    compiled = collections.defaultdict(list)
    for step in steps:
        if step.kind == "compilations" and "/" in step.output:
            compiled[step.output.rsplit("__/", 1)[-1]].append(step)
    again = [(f"{source}: {', '.join(sorted(step.target for step in of))}", sum(step.seconds for step in of))
             for source, of in compiled.items() if len(of) > 1]
    lines += table("Sources that several targets compile", longest(again, count))
    lines += table("Seconds of the tests", [(f"all ({len(tests)})", sum(test.seconds for test in tests))])
    lines += table(f"The {count} longest tests", longest(tests, count))
    return "\n".join(lines)
