#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint by the format in docs/checkpoints.md, without the library, in two ways that must agree: by the
names of tensors in the files, and by the closed form in checkpoint.json.

    read_checkpoint.py CHECKPOINT WEIGHTS

WEIGHTS is a safetensors file in fp32 of the same step, whose values masters and frozen parameters must have. Prints a
line for each state, "exp_avg/NAME" and FNV-1a of 64 bits of its bytes. Exit status: 1, with the reason, if there is a
problem.
"""

import json
import math
import re
import struct
import sys
from pathlib import Path

SIZES = {"F32": 4, "BF16": 2, "F16": 2}
SPELLED = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} and the metadata. Every byte must belong to a tensor."""
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header, data = json.loads(whole[8:8 + length]), whole[8 + length:]
    metadata = header.pop("__metadata__")
    end = 0
    for name, entry in header.items():
        assert entry["data_offsets"][0] == end, f"{path}: {name} begins at {entry['data_offsets'][0]}, and not at {end}"
        end = entry["data_offsets"][1]
    assert end == len(data), f"{path}: {len(data)} bytes of data, and tensors have {end}"
    return {n: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for n, e in header.items()}, metadata, data, length


def places_in_whole(shape, cut):
    """The position in the whole of each element of a part; None for padding."""
    along = []
    begin = 0
    for section in cut["sections"] or [shape[cut["dim"]]]:
        size = -(-section // cut["of"])
        if cut["multiple"]:
            size = -(-size // cut["multiple"]) * cut["multiple"]
        first = cut["index"] * size
        along += [begin + i if i < section else None for i in range(first, first + size)]
        begin += section
    inner = math.prod(shape[cut["dim"] + 1:])
    places = []
    for row in range(math.prod(shape[:cut["dim"]])):
        for index in along:
            for i in range(inner):
                places.append(None if index is None else (row * shape[cut["dim"]] + index) * inner + i)
    return places


def put_together(parts):
    """The elements of a whole parameter, from (places, elements) of each part."""
    whole = {}
    for places, elements in parts:
        assert len(places) == len(elements)
        for place, element in zip(places, elements):
            if place is None:
                assert not any(element), "padding of a part is not zero"
            else:
                assert place not in whole, "two parts have one element"
                whole[place] = element
    assert sorted(whole) == list(range(len(whole))), "parts have not all elements"
    return b"".join(whole[place] for place in range(len(whole)))


def all_cuts(record):
    """"NAME[index/of]" -> (NAME, positions in the whole), for every part."""
    cuts = {}
    for space in record["spaces"]:
        for param in space["params"]:
            if cut := param.get("cut"):
                part = f"{param['name']}[{cut['index']}/{cut['of']}]"
                cuts[part] = (param["name"], places_in_whole(param["shape"], cut))
    return cuts


def by_names(files, cuts):
    """States assembled from slices "STATE/NAME[first:end]". NAME may be that of a part, "NAME[index/of]"."""
    slices = {}
    for tensors, *_ in files:
        for name, (dtype, shape, data) in tensors.items():
            if found := re.fullmatch(r"(.*)\[(\d+):(\d+)\]", name):
                first, end = int(found[2]), int(found[3])
                assert shape == [end - first] and len(data) == (end - first) * SIZES[dtype], name
                slices.setdefault(found[1], []).append((first, end, dtype, data))
            elif name.startswith("padding/"):
                assert not any(data), f"{name} is not zero"
            else:
                assert name == "xxh3_64_of_each_mib", f"{name} is unknown"
    states = {}
    of_parts = {}
    for name, parts in slices.items():
        parts.sort()
        assert [first for first, *_ in parts] == [0, *(end for _, end, *_ in parts[:-1])], f"{name} has gaps"
        dtype, data = parts[0][2], b"".join(data for *_, data in parts)
        state, part = name.split("/", 1)
        if part in cuts:
            size = SIZES[dtype]
            elements = [data[i:i + size] for i in range(0, len(data), size)]
            of_parts.setdefault((f"{state}/{cuts[part][0]}", dtype), []).append((cuts[part][1], elements))
        else:
            states[name] = (dtype, data)
    for (name, dtype), parts in of_parts.items():
        states[name] = (dtype, put_together(parts))
    return states


def by_closed_form(record, files):
    """States element by element, by two divisions each."""
    found = {}
    for space in record["spaces"]:
        for state in space["states"]:
            size = SIZES[SPELLED[state["dtype"]]]
            for param in space["params"]:
                if cut := param.get("cut"):
                    places = places_in_whole(param["shape"], cut)
                else:
                    places = range(math.prod(param["shape"]))
                count = len(places)
                elements = []
                for element in range(param["at"], param["at"] + count):
                    place, within = divmod(element, space["slice_count"])
                    begin = state["base"] + within * size
                    elements.append(files[space["first_place"] + place][2][begin:begin + size])
                name = (f"{state['name']}/{param['name']}", SPELLED[state["dtype"]])
                found.setdefault(name, []).append((places, elements))
    return {name: (dtype, put_together(parts)) for (name, dtype), parts in found.items()}


def widened(dtype, data):
    """Converts to fp32."""
    if dtype == "F32":
        return data
    if dtype == "BF16":
        return b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    return struct.pack(f"<{len(data) // 2}f", *struct.unpack(f"<{len(data) // 2}e", data))


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    folder, weights = Path(sys.argv[1]), read_safetensors(Path(sys.argv[2]))[0]
    record = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
    files = [read_safetensors(folder / f"place_{place:05}.safetensors") for place in range(record["places"])]
    for place, (_, metadata, _, length) in enumerate(files):
        assert (8 + length) % 4096 == 0, "data begin at no multiple of 4096"
        assert metadata["save_id"] == record["save_id"] and metadata["place"] == str(place)
    states = by_names(files, all_cuts(record))
    assert states == by_closed_form(record, files), "names and closed form tell different states"
    kept = {name.split("/", 1)[1]: value for name, value in states.items() if name.split("/", 1)[0] in ("master", "frozen")}
    assert kept.keys() == weights.keys(), f"parameters {sorted(kept)}, and weights {sorted(weights)}"
    for name, (dtype, data) in kept.items():
        assert widened(dtype, data) == weights[name][2], f"{name} is not what was trained"
    for name, (_, data) in sorted(states.items()):
        print(name, f"{fnv1a(data):016x}")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"read_checkpoint.py: {error}")
