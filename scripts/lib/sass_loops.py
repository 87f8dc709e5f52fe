# SPDX-License-Identifier: Apache-2.0
"""Finds the loops of a kernel's machine code (SASS), and so the instructions that run repeatedly."""

import dataclasses
import re


class UnknownJump(Exception):
    """This module cannot determine where an instruction continues."""


@dataclasses.dataclass
class Instruction:
    address: int
    guard: str  # "@!P0", or empty
    opcode: str  # with its modifiers: "LDL.64"
    operands: str

    @property
    def name(self):
        return self.opcode.split(".")[0]

    @property
    def target(self):
        """The label in its operands, or None."""
        found = re.search(r"`\(([^)]+)\)", self.operands)
        return found.group(1) if found else None


@dataclasses.dataclass
class Function:
    """Instructions in order; labels are indices of instructions."""
    name: str
    code: list
    labels: dict


@dataclasses.dataclass
class Loop:
    head: int
    body: frozenset  # indices of instructions, including those of called functions

    def inside(self, other):
        return self.body < other.body


def _has_guard(instruction):
    if instruction.guard not in ("", "@PT", "@UPT"):
        return True
    # "BRA !P1, `(there)" and "BRA.DIV UR4, `(there)": a condition as an operand.
    return not instruction.operands.startswith("`(")


class _Flow:
    """Finds the successors of instructions. BSYNC continues at the label of the BSSY that is in force."""

    def __init__(self, function, entry):
        self.function = function
        self.next = {}  # of all instructions reached from `entry`, without entering calls
        self.calls = {}  # {index of a call: index of the called function's first instruction}
        waiting = [(entry, {})]
        while waiting:
            at, meeting = waiting.pop()
            if at in self.next:
                continue
            found, meeting = self._behind(at, meeting)
            self.next[at] = found
            waiting += [(index, meeting) for index in found]

    def _behind(self, at, meeting):
        instruction = self.function.code[at]
        labels = self.function.labels
        name, there = instruction.name, instruction.target
        behind = [at + 1] if at + 1 < len(self.function.code) else []
        if name in ("EXIT", "RET", "KILL"):
            return (behind if instruction.guard else []), meeting
        if there is None and name in ("BRA", "CALL"):
            raise UnknownJump(f"{self.function.name}: {instruction}")
        # A call to a label within the code does not return: it is a branch that all lanes take.
        if name == "BRA" or (name == "CALL" and there.startswith(".L_")):
            return (behind if _has_guard(instruction) else []) + [labels[there]], meeting
        if name == "CALL":
            self.calls[at] = labels[there]
        elif name == "BSSY":
            meeting = {**meeting, instruction.operands.split(",")[0]: labels[there]}
        elif name == "BSYNC":
            barrier = instruction.operands.strip()
            return (behind if instruction.guard else []) + [meeting[barrier]], meeting
        elif name == "WARPSYNC" and there is not None:
            behind = [*behind, labels[there]]
        elif name in ("BRX", "BRXU", "JMP", "JMX", "JMXU"):
            raise UnknownJump(f"{self.function.name}: {instruction}")
        return behind, meeting


def _order(following, entry):
    """Reverse postorder."""
    order, seen, stack = [], {entry}, [(entry, iter(following[entry]))]
    while stack:
        node, rest = stack[-1]
        found = next((n for n in rest if n not in seen), None)
        if found is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(found)
            stack.append((found, iter(following[found])))
    return order[::-1]


def _dominators(following, entry):
    """The immediate dominator of each node (Cooper, Harvey and Kennedy 2001)."""
    order = _order(following, entry)
    number = {node: k for k, node in enumerate(order)}
    before = {node: [] for node in order}
    for node in order:
        for found in following[node]:
            before[found].append(node)
    above = {entry: entry}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [p for p in before[node] if p in above]
            common = known[0]
            for predecessor in known[1:]:
                other = predecessor
                while common != other:
                    if number[common] > number[other]:
                        common = above[common]
                    else:
                        other = above[other]
            if above.get(node) != common:
                above[node] = common
                changed = True
    return above, before


def _blocks(flow, entry):
    """Basic blocks by first instruction: the instructions of each, and the blocks that follow it."""
    first = {entry}
    for at, found in flow.next.items():
        if len(found) != 1 or found[0] != at + 1:
            first.update(found)
            if at + 1 in flow.next:
                first.add(at + 1)
    blocks, following = {}, {}
    for start in first:
        members = [start]
        while flow.next[members[-1]] == [members[-1] + 1] and members[-1] + 1 not in first:
            members.append(members[-1] + 1)
        blocks[start] = members
        following[start] = flow.next[members[-1]]
    return blocks, following


def loops_of(function, entry=0):
    """Natural loops: a block that dominates the source of an edge back to it, and the blocks on paths to that edge."""
    flow = _Flow(function, entry)
    blocks, following = _blocks(flow, entry)
    above, before = _dominators(following, entry)

    def dominates(head, node):
        while node not in (head, entry):
            node = above[node]
        return node == head

    found = {}
    for node in above:
        for head in following[node]:
            if dominates(head, node):
                body = found.setdefault(head, {head})
                waiting = [node]
                while waiting:
                    member = waiting.pop()
                    if member not in body:
                        body.add(member)
                        waiting += before[member]
    loops = []
    for head, body in found.items():
        instructions = {at for block in body for at in blocks[block]}
        called = {flow.calls[at] for at in instructions if at in flow.calls}
        for callee in called:
            instructions.update(_Flow(function, callee).next)
        loops.append(Loop(head, frozenset(instructions)))
    return loops


def inner_loops(loops):
    """Innermost loops and nested loops: all except outermost loops that contain others, which only distribute work."""
    return [loop for loop in loops
            if any(loop.inside(other) for other in loops) or not any(other.inside(loop) for other in loops)]
