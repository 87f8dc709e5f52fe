# SPDX-License-Identifier: Apache-2.0
"""Facts that nvdisasm prints about a cubin's kernels: registers, memory, threads, and loops that use local memory."""

import dataclasses
import re
import subprocess

from lib.sass_loops import Function, Instruction, inner_loops, loops_of

_SECTION = re.compile(r"^\t\.section\t\.(text|nv\.shared)\.(\S+?),")
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(@!?U?P\w+)?\s*([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"^(\S+):$")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclasses.dataclass
class Kernel:
    name: str  # as in C++
    architecture: int
    threads: int
    registers: int
    stack: int  # bytes per thread
    shared: int  # bytes per block
    stored: int  # summed over instructions, bytes that a thread stores to local memory
    loaded: int
    in_loops: list  # addresses of local loads and stores in inner loops


def disassembled(nvdisasm, cubin):
    done = subprocess.run([str(nvdisasm), str(cubin)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"nvdisasm {cubin}: {done.stderr.strip()}")
    return done.stdout


def short_names(mangled):
    """{symbol: name}. A name is the body's, without namespaces and the parts that all kernels share."""
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    return {symbol: _shortened(name) for symbol, name in zip(mangled, done.stdout.splitlines())}


def _shortened(name):
    body = re.fullmatch(r"void zeroth::cuda::run<(.*)>\(.*\)", name)
    name = body.group(1).strip() if body else name
    return re.sub(r"\(int\)", "", re.sub(r"\b\w+::", "", name)).replace(" >", ">")


def bytes_of(opcode):
    """The bytes that a thread's load or store moves."""
    return next((_BYTES[part] for part in opcode.split(".")[1:] if part in _BYTES), 4)


def kernels_of(text, architecture):
    """All kernels in nvdisasm's output."""
    functions, shared = _sections(text)
    registers, stack = _numbers(text, "REGCOUNT"), _numbers(text, "FRAME_SIZE")
    threads = _threads(text)
    names = short_names(list(functions))
    found = []
    for symbol, function in functions.items():
        code = function.code
        stored = [i for i, each in enumerate(code) if each.name == "STL"]
        loaded = [i for i, each in enumerate(code) if each.name == "LDL"]
        local = {*stored, *loaded}
        inner = inner_loops(loops_of(function)) if local else []
        found.append(Kernel(
            name=names[symbol], architecture=architecture, threads=threads[symbol], registers=registers[symbol],
            stack=stack.get(symbol, 0), shared=shared.get(symbol, 0),
            stored=sum(bytes_of(code[i].opcode) for i in stored), loaded=sum(bytes_of(code[i].opcode) for i in loaded),
            in_loops=sorted({hex(code[i].address) for loop in inner for i in local & loop.body})))
    return found


def _sections(text):
    functions, shared, current = {}, {}, None
    kind = symbol = None
    for line in text.splitlines():
        if line.startswith("\t.section\t"):
            section = _SECTION.match(line)
            kind, symbol = section.groups() if section else (None, None)
            if kind == "text":
                current = functions[symbol] = Function(symbol, [], {})
        elif kind == "text":
            instruction = _INSTRUCTION.match(line)
            if instruction:
                address, guard, opcode, operands = instruction.groups()
                current.code.append(Instruction(int(address, 16), guard or "", opcode, operands))
            elif label := _LABEL.match(line):
                current.labels[label.group(1)] = len(current.code)
        elif kind == "nv.shared" and line.strip().startswith(".zero"):
            shared[symbol] = shared.get(symbol, 0) + int(line.split()[1])
    return functions, shared


def _numbers(text, attribute):
    """{function: number} of one attribute of a cubin's functions."""
    pattern = rf"EIATTR_{attribute}\n(?:.*\n){{1,6}}?.*index@\(([^)]+)\)\n.*\.word\s+0x([0-9a-f]+)"
    return {name: int(value, 16) for name, value in re.findall(pattern, text)}


def _threads(text):
    found, symbol = {}, None
    lines = iter(text.splitlines())
    for line in lines:
        section = re.match(r"^\t\.section\t\.nv\.info\.(\S+?),", line)
        if section:
            symbol = section.group(1)
        elif line.endswith("EIATTR_MAX_THREADS"):
            words = []
            while len(words) < 3:
                words += re.findall(r"\.word\s+0x([0-9a-f]+)", next(lines))
            found[symbol] = int(words[0], 16) * int(words[1], 16) * int(words[2], 16)
    return found
