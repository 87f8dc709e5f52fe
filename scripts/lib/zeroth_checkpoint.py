# SPDX-License-Identifier: Apache-2.0
"""Reads and writes Zeroth's checkpoints, as docs/checkpoints.md describes them, with numpy and xxhash."""

import dataclasses
import datetime
import json
import math
import os
import pathlib
import re
import secrets
import shutil
import socket
import struct
from typing import Callable

import numpy
import xxhash

HASHED_BYTES = 1 << 20
BLOCK_BYTES = 4096
ALIGNMENT = 128  # starts of parameters are multiples of so many elements
RECORD = "checkpoint.json"
DTYPES = {"fp32": ("F32", numpy.dtype("<f4")), "bf16": ("BF16", numpy.dtype("<u2")), "fp16": ("F16", numpy.dtype("<f2"))}


class Wrong(Exception):
    """A checkpoint or a request is invalid. The message says which, and why."""


@dataclasses.dataclass
class Parameter:
    """A parameter of a checkpoint. Each state is a function that returns its elements in fp32, in the parameter's shape."""

    name: str
    shape: tuple
    states: dict[str, Callable[[], numpy.ndarray]]  # the master, then the optimizer's states; or frozen

    @property
    def count(self):
        return math.prod(self.shape)


@dataclasses.dataclass
class Position:
    """The progress of a run."""

    step: int
    applied: int
    samples: int


# ---- writing --------------------------------------------------------------------------------------------------------


def aligned(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def spaces_of(parameters):
    """A space for each parameter, all in one file, and their total number of bytes."""
    spaces, base = [], 0
    for parameter in parameters:
        count = aligned(parameter.count)
        states = []
        for state in parameter.states:
            states.append({"name": state, "dtype": "fp32", "base": base})
            base += 4 * count
        spaces.append({"unit": parameter.name, "trainable": "frozen" not in parameter.states, "first_place": 0, "places": 1,
                       "slice_count": count, "states": states,
                       "params": [{"name": parameter.name, "shape": list(parameter.shape), "at": 0}]})
    return spaces, base


def header_of(parameters, save_id, state_bytes):
    """The file's safetensors header, padded to whole blocks."""
    tensors = {"__metadata__": {"format": "zeroth checkpoint 1", "save_id": save_id, "place": "0", "places": "1"}}
    at = paddings = 0

    def add(name, dtype, count, element_bytes):
        nonlocal at
        tensors[name] = {"dtype": dtype, "shape": [count], "data_offsets": [at, at + count * element_bytes]}
        at += count * element_bytes

    for parameter in parameters:
        for state in parameter.states:
            add(f"{state}/{parameter.name}[0:{parameter.count}]", "F32", parameter.count, 4)
            if parameter.count % ALIGNMENT:
                add(f"padding/{paddings}", "F32", aligned(parameter.count) - parameter.count, 4)
                paddings += 1
    add("xxh3_64_of_each_mib", "U64", -(-state_bytes // HASHED_BYTES), 8)
    text = json.dumps(tensors, separators=(",", ":"), ensure_ascii=False).encode()
    length = -(-(8 + len(text)) // BLOCK_BYTES) * BLOCK_BYTES - 8
    return struct.pack("<Q", length) + text.ljust(length)


class HashedFile:
    """A writer that hashes every MiB."""

    def __init__(self, file):
        self.file, self.pending, self.hashes = file, bytearray(), []

    def write(self, data):
        self.file.write(data)
        view = memoryview(data)
        while len(self.pending) + len(view) >= HASHED_BYTES:
            taken = HASHED_BYTES - len(self.pending)
            self._hash(bytes(self.pending) + bytes(view[:taken]))
            self.pending.clear()
            view = view[taken:]
        self.pending += view

    def finish(self):
        if self.pending:
            self._hash(bytes(self.pending))
        self.file.write(struct.pack(f"<{len(self.hashes)}Q", *self.hashes))

    def _hash(self, data):
        self.hashes.append(xxhash.xxh3_64_intdigest(data))


def elements_of(parameter, state):
    values = numpy.ascontiguousarray(parameter.states[state](), dtype="<f4")
    if values.shape != tuple(parameter.shape):
        raise Wrong(f"{state} of {parameter.name} has shape {list(values.shape)}; allowed: {list(parameter.shape)}")
    return values.tobytes() + bytes(4 * (aligned(parameter.count) - parameter.count))


def text_of(record):
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)[:-1]
    return text + end_with_hash_of(text)


def end_with_hash_of(text):
    """The end of a record that begins with `text`."""
    return f',\n "xxh3": "{xxhash.xxh3_64_hexdigest(text.encode())}"\n}}\n'


def write(folder, parameters, position, optimizer, origin):
    """Writes folder/step_N and folder/latest. The checkpoint gets its name once all of it is on disk. `origin` says
    where it comes from, in place of a version. Needs memory for one state of one parameter, and for all names."""
    parameters = list(parameters)
    names = [parameter.name for parameter in parameters]
    if not names or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), None)
        raise Wrong(f"{twice} occurs twice" if twice else "there are no parameters")
    for parameter in parameters:
        if parameter.count == 0:
            raise Wrong(f"{parameter.name} has shape {list(parameter.shape)}; allowed: at least one element")
    folder = pathlib.Path(folder)
    final = folder / f"step_{position.step:08}"
    if final.exists():
        raise Wrong(f"{final} exists; allowed: a folder without a checkpoint of step {position.step}")
    save_id = secrets.token_hex(16)
    spaces, state_bytes = spaces_of(parameters)
    record = {"format": 2, "save_id": save_id, "step": position.step, "applied": position.applied, "samples": position.samples,
              "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "version": origin,
              "host": socket.gethostname(), "process": os.getpid(), "model_seed": "0", "rounding_seed": 0,
              "optimizer": optimizer, "stage_file": "{}", "program_state": "", "places": 1, "spaces": spaces}
    partial = folder / f"{final.name}.{save_id}.partial"
    partial.mkdir(parents=True)
    try:
        with (partial / "place_00000.safetensors").open("wb") as file:
            file.write(header_of(parameters, save_id, state_bytes))
            hashed = HashedFile(file)
            for parameter in parameters:
                for state in parameter.states:
                    hashed.write(elements_of(parameter, state))
            hashed.finish()
            sync(file)
        write_text(partial / RECORD, text_of(record))
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    write_text(folder / "latest.partial", final.name + "\n")
    (folder / "latest.partial").rename(folder / "latest")
    return final


def write_text(path, text):
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        sync(file)


def sync(file):
    file.flush()
    os.fsync(file.fileno())


# ---- reading --------------------------------------------------------------------------------------------------------


class Reader:
    """A checkpoint, or the one that `latest` in a folder names. Checks the hashes of everything that it reads."""

    def __init__(self, path):
        path = pathlib.Path(path)
        if (path / "latest").exists():
            path = path / (path / "latest").read_text(encoding="utf-8").strip()
        try:
            text = (path / RECORD).read_text(encoding="utf-8")
        except OSError as error:
            raise Wrong(f"{path} is not a checkpoint: {error}") from error
        end = text.rfind(",\n \"xxh3\"")
        if end < 0 or text != text[:end] + end_with_hash_of(text[:end]):
            raise Wrong(f"{path / RECORD} is damaged: hash mismatch")
        self.path, self.record = path, json.loads(text)
        if self.record["format"] > 5:
            raise Wrong(f"{path}: its format is {self.record['format']}; allowed: 1 to 5")
        self._verified = {}

    @property
    def position(self):
        return Position(self.record["step"], self.record["applied"], self.record["samples"])

    def parameters(self):
        """Whole parameters, in the order of their names."""
        parts = {}
        for space in self.record["spaces"]:
            for param in space["params"]:
                parts.setdefault(param["name"], []).append((space, param))
        for name, of in sorted(parts.items()):
            space, param = of[0]
            states = {state["name"]: self._read_later(of, state["name"]) for state in space["states"]}
            yield Parameter(name, tuple(param["shape"]), states)

    def _read_later(self, parts, state):
        return lambda: self._whole(parts, state)

    def _whole(self, parts, state):
        space, param = parts[0]
        if "cut" not in param:
            return self._elements(space, param, state, math.prod(param["shape"])).reshape(param["shape"])
        whole = numpy.zeros(param["shape"], numpy.float32)
        for space, part in parts:
            place_part(whole, part["cut"], lambda shape, space=space, part=part:
                       self._elements(space, part, state, math.prod(shape)).reshape(shape))
        return whole

    def _elements(self, space, param, state, count):
        found = next(each for each in space["states"] if each["name"] == state)
        dtype = DTYPES[found["dtype"]][1]
        pieces, at, end = [], param["at"], param["at"] + count
        while at < end:
            place, within = divmod(at, space["slice_count"])
            here = min(end - at, space["slice_count"] - within)
            pieces.append(self._bytes(space.get("first_place", 0) + place, found["base"] + within * dtype.itemsize,
                                      here * dtype.itemsize))
            at += here
        values = numpy.frombuffer(b"".join(pieces), dtype)
        if found["dtype"] == "bf16":
            return (values.astype("<u4") << 16).view("<f4")
        return values.astype(numpy.float32)

    def _bytes(self, place, first, count):
        """Bytes of a file's data. Reads whole MiBs and checks their hashes."""
        path = self.path / f"place_{place:05}.safetensors"
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if place not in self._verified:
                table = json.loads(file.read(length))["xxh3_64_of_each_mib"]["data_offsets"]
                file.seek(8 + length + table[0])
                self._verified[place] = table[0], struct.unpack(f"<{(table[1] - table[0]) // 8}Q", file.read(table[1] - table[0]))
            state_bytes, hashes = self._verified[place]
            begin, end = first // HASHED_BYTES, -(-(first + count) // HASHED_BYTES)
            file.seek(8 + length + begin * HASHED_BYTES)
            data = file.read(min(end * HASHED_BYTES, state_bytes) - begin * HASHED_BYTES)
        for index in range(begin, end):
            piece = data[(index - begin) * HASHED_BYTES:(index - begin + 1) * HASHED_BYTES]
            if xxhash.xxh3_64_intdigest(piece) != hashes[index]:
                raise Wrong(f"{path} is damaged in MiB {index} of its data: hash mismatch")
        return data[first - begin * HASHED_BYTES:first - begin * HASHED_BYTES + count]


def place_part(whole, cut, read):
    """Copies a tensor rank's part, which `read` returns in the part's shape, into the whole parameter."""
    dim = cut["dim"]
    sections = cut["sections"] or [whole.shape[dim]]
    multiple = cut["multiple"] or 1
    extents = [-(-section // cut["of"] // multiple) * multiple for section in sections]
    shape = list(whole.shape)
    shape[dim] = sum(extents)
    part = numpy.moveaxis(read(tuple(shape)), dim, 0)
    target = numpy.moveaxis(whole, dim, 0)
    at = begin = 0
    for section, extent in zip(sections, extents):
        first = min(section, cut["index"] * extent)
        last = min(section, first + extent)
        target[begin + first:begin + last] = part[at:at + last - first]
        at, begin = at + extent, begin + section


# ---- names ----------------------------------------------------------------------------------------------------------


def renamed(parameters, rules):
    """`rules`: (pattern, replacement) of re.sub, each applied in turn. A parameter whose name becomes empty is left out."""
    for parameter in parameters:
        name = parameter.name
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        if name:
            yield dataclasses.replace(parameter, name=name)
