#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts checkpoints of DeepSpeed and of PyTorch's distributed checkpoint (DCP) to Zeroth's, and Zeroth's to DCP's.

    python3 -m venv .venv && .venv/bin/pip install torch numpy xxhash        and deepspeed, for its checkpoints
    .venv/bin/python scripts/convert.py from-deepspeed runs/ds saved         the tag that `latest` names
    .venv/bin/python scripts/convert.py from-dcp runs/dcp saved --step 1000 --samples 32000
    .venv/bin/python scripts/convert.py to-dcp saved runs/dcp

DeepSpeed's and PyTorch's own libraries read their folders. Masters, the states of Adam and AdamW (exp_avg, exp_avg_sq),
those of SGD (momentum_buffer; DCP only), and the numbers of steps and samples are converted. The stage file gives
learning rates and other settings. Parameters keep their names, unless --rename changes them: "^module\\.=" removes
"module.". A parameter whose name becomes empty is left out: use "^lm_head\\.weight$=" for a tied head that is saved
beside the embedding. The libraries unpickle files, which can run any code: convert only files that you trust.
"""

import argparse
import pathlib
import sys
import tempfile
from types import SimpleNamespace

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib.zeroth_checkpoint import Parameter, Position, Reader, Wrong, renamed, write  # noqa: E402

ADAM, MOMENTUM = ("exp_avg", "exp_avg_sq"), ("momentum_buffer",)


def rule(text):
    pattern, sign, replacement = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: PATTERN=REPLACEMENT, a regular expression and its replacement")
    return pattern, replacement


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    deepspeed = commands.add_parser("from-deepspeed", help="a folder that DeepSpeed's save_checkpoint() wrote, at ZeRO 1 to 3")
    dcp = commands.add_parser("from-dcp", help="a folder that torch.distributed.checkpoint.save() wrote")
    to_dcp = commands.add_parser("to-dcp", help="a checkpoint of Zeroth, or a folder of them")
    for command, what in ((deepspeed, "DeepSpeed's folder"), (dcp, "DCP's folder"), (to_dcp, "Zeroth's checkpoint")):
        command.add_argument("source", type=pathlib.Path, help=what)
        command.add_argument("target", type=pathlib.Path, help="folder to write into")
        command.add_argument("--rename", type=rule, action="append", default=[], metavar="PATTERN=REPLACEMENT")
    deepspeed.add_argument("--tag", help="which checkpoint [the one that `latest` names]")
    for command in (dcp, to_dcp):
        command.add_argument("--model", default="model", help="key of the parameters [%(default)s]")
        command.add_argument("--optimizer", default="optim", help="key of the optimizer's states [%(default)s]")
    dcp.add_argument("--step", type=int, help="steps that the run has taken [those that the optimizer counts]")
    dcp.add_argument("--samples", type=int, required=True, help="samples that the run has read: steps times its batch")
    return parser.parse_args(words)


def optimizer_named(states):
    """The optimizer that has these states, and their names in order."""
    for name, of in (("AdamW", ADAM), ("SGD", MOMENTUM), ("SGD", ())):
        if set(of) == set(states):
            return name, of
    raise Wrong(f"the optimizer's states are {', '.join(sorted(states))}; allowed: {', '.join(ADAM)} (Adam, AdamW), "
                f"{', '.join(MOMENTUM)} (SGD), or none")


# ---- DeepSpeed ------------------------------------------------------------------------------------------------------


def from_deepspeed(options):
    """Converts through a universal checkpoint, which DeepSpeed's own script makes."""
    import torch  # noqa: PLC0415
    from deepspeed import __version__  # noqa: PLC0415
    from deepspeed.checkpoint import ds_to_universal  # noqa: PLC0415

    tag = options.tag or (options.source / "latest").read_text(encoding="utf-8").strip()
    folder = options.source / tag
    if not folder.is_dir():
        raise Wrong(f"{folder} is not there; allowed: a folder that save_checkpoint() wrote, and --tag one of its tags")
    position, shapes = facts_of_deepspeed(torch, folder)
    with tempfile.TemporaryDirectory(dir=options.target.parent if options.target.parent.is_dir() else None) as universal:
        try:
            ds_to_universal.main(SimpleNamespace(
                input_folder=str(folder), output_folder=universal, num_extract_workers=1, num_merge_workers=1,
                keep_temp_folder=False, strict=True, inject_missing_state=True))
        except KeyError as error:
            raise Wrong(f"{folder}: DeepSpeed's ds_to_universal finds no state {error}; allowed: what it converts, the "
                        "states of Adam and AdamW") from error
        found = sorted(path.parent for path in (pathlib.Path(universal) / "zero").rglob("fp32.pt"))
        kinds = {frozenset(path.stem for path in each.glob("*.pt")) - {"fp32", "step"} for each in found}
        name, states = optimizer_named(max(kinds, key=len))

        def parameters():
            for each in found:
                has = {path.stem for path in each.glob("*.pt")}
                own_name = str(each.relative_to(pathlib.Path(universal) / "zero"))
                yield parameter_in(torch, each, own_name, shapes.get(own_name), states if has >= set(states) else None)
        return write(options.target, renamed(parameters(), options.rename), position, name, f"DeepSpeed {__version__}")


def parameter_in(torch, folder, name, shape, states):
    """A parameter of a universal checkpoint. ZeRO 3 writes flat states; `shape` is the module's shape of them,
    otherwise None."""
    def load(state):
        def values():
            saved = torch.load(folder / f"{state}.pt", map_location="cpu", weights_only=False)
            flat = (saved["param"] if isinstance(saved, dict) else saved).detach().float().numpy()
            return flat if shape is None else flat.reshape(shape)
        return values
    shape = tuple(load("fp32")().shape)
    return Parameter(name, shape, {"frozen": load("fp32")} if states is None else
                     {"master": load("fp32"), **{state: load(state) for state in states}})


def facts_of_deepspeed(torch, folder):
    """The position, and the shapes of the parameters that ZeRO shards."""
    files = sorted(folder.glob("*model_states.pt"))
    if not files:
        raise Wrong(f"{folder} has no file *model_states.pt; allowed: a folder that save_checkpoint() wrote")
    state = torch.load(files[0], map_location="cpu", weights_only=False)
    shapes = {name: tuple(shape) for group in state.get("param_shapes") or [] for name, shape in group.items()}
    return Position(state["global_steps"], state["global_steps"] - state.get("skipped_steps", 0), state["global_samples"]), shapes


# ---- DCP ------------------------------------------------------------------------------------------------------------


def from_dcp(options):
    import torch  # noqa: PLC0415
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: PLC0415

    if not (options.source / ".metadata").exists():
        raise Wrong(f"{options.source} has no .metadata; allowed: a folder that torch.distributed.checkpoint.save() wrote")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "all.pt"
        dcp_to_torch_save(options.source, file)
        saved = torch.load(file, map_location="cpu", mmap=True, weights_only=False)
        if options.model not in saved:
            raise Wrong(f"{options.source} has no {options.model!r}; allowed for --model: {', '.join(sorted(map(str, saved)))}")
        states = saved.get(options.optimizer, {}).get("state", {})
        kinds = [set(of) - {"step"} for of in states.values()]
        name, kept = optimizer_named(max(kinds, key=len, default=set()))
        steps = {int(of["step"]) for of in states.values() if "step" in of}
        step = options.step if options.step is not None else max(steps, default=None)
        if step is None:
            raise Wrong(f"{options.source} does not say how many steps were taken; give --step")
        applied = max(steps, default=step)

        def parameters():
            for each, tensor in saved[options.model].items():
                if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
                    continue  # a buffer
                of = states.get(each)
                is_frozen = of is None and kept  # SGD without momentum has no states
                values = {"frozen": tensor} if is_frozen else {"master": tensor, **{state: of[state] for state in kept}}
                yield Parameter(each, tuple(tensor.shape),
                                {state: (lambda value=value: value.detach().float().numpy()) for state, value in values.items()})
        return write(options.target, renamed(parameters(), options.rename), Position(step, applied, options.samples), name,
                     f"torch.distributed.checkpoint of {torch.__version__}")


def to_dcp(options):
    import torch  # noqa: PLC0415
    from torch.distributed import checkpoint  # noqa: PLC0415

    reader = Reader(options.source)
    if options.target.exists() and any(options.target.iterdir()):
        raise Wrong(f"{options.target} is not empty; allowed: a folder that is new or empty")
    model, states = {}, {}
    for parameter in renamed(reader.parameters(), options.rename):
        for state, read in parameter.states.items():
            tensor = torch.from_numpy(numpy.ascontiguousarray(read()))
            if state in ("master", "frozen"):
                model[parameter.name] = tensor
            else:
                states.setdefault(parameter.name, {})[state] = tensor
        if "exp_avg" in parameter.states:
            states[parameter.name]["step"] = torch.tensor(float(reader.position.applied))
    checkpoint.save({options.model: model, options.optimizer: {"state": states}}, checkpoint_id=options.target, no_dist=True)
    return options.target


def main():
    options = arguments()
    commands = {"from-deepspeed": from_deepspeed, "from-dcp": from_dcp, "to-dcp": to_dcp}
    try:
        print(f"{commands[options.command](options)} written")
    except (Wrong, OSError) as error:
        sys.exit(f"convert.py: {error}")
    except ImportError as error:
        sys.exit(f"convert.py: {error}; see --help for what to install")


if __name__ == "__main__":
    main()
