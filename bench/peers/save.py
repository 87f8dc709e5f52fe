# SPDX-License-Identifier: Apache-2.0
"""One rank of a peer that saves and loads a checkpoint, started by checkpoint.py.

Trains one step, so that moments exist. Also measures the limits of disk and memory: the same number of bytes written
and read without the system's cache by the same number of processes, and copied. Seconds last from the common start of
all ranks until the last has ended. Rank 0 writes its measurements to --out.
"""

import argparse
import dataclasses
import json
import mmap
import os
import pathlib
import subprocess
import sys
import time

import torch
from torch import distributed as dist

import frameworks
import gpt
from loads import LOADS, VOCABULARY
from resident import Growth

LOAD = dataclasses.replace(LOADS["state"], context=128)  # the load of bench_checkpoint
REQUEST = 4 << 20


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=CASES, required=True)
    parser.add_argument("--what", choices=("save", "load"), required=True, help="load: what others have saved")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args(words)


def timed(action):
    dist.barrier()
    began = time.perf_counter()
    action()
    dist.barrier()
    return time.perf_counter() - began


def forget(folder):
    """Drops files from the page cache, so that they are read from the disk again."""
    dist.barrier()
    if dist.get_rank() == 0:
        for path in folder.rglob("*"):
            if path.is_file():
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)  # unwritten pages would stay in the cache
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)
    dist.barrier()


class Raw:
    """The limits of this process without a framework: transfers of `size` bytes, in requests of 4 MiB."""

    def __init__(self, folder, size):
        self.path = folder / f"raw_{dist.get_rank()}"
        self.size = -(-size // REQUEST) * REQUEST
        self.memory = mmap.mmap(-1, self.size)
        torch.frombuffer(self.memory, dtype=torch.int64).random_()

    def each(self, flags, action):
        descriptor = os.open(self.path, flags | os.O_DIRECT, 0o666)
        with memoryview(self.memory) as view:
            for at in range(0, self.size, REQUEST):
                with view[at:at + REQUEST] as part:
                    if action(descriptor, part, at) != len(part):
                        raise OSError(f"{self.path}: fewer bytes than asked for")
        os.fsync(descriptor)
        os.close(descriptor)

    def write(self):
        self.path.unlink(missing_ok=True)
        self.each(os.O_CREAT | os.O_WRONLY, os.pwrite)

    def read(self):
        self.each(os.O_RDONLY, lambda descriptor, part, at: os.preadv(descriptor, [part], at))

    def copy(self):
        source = torch.frombuffer(self.memory, dtype=torch.uint8)
        target = torch.empty_like(source).fill_(1)
        return timed(lambda: target.copy_(source))

    def measure(self):
        figures = {"raw_write": timed(self.write), "raw_read": timed(self.read), "memcpy": self.copy()}
        self.path.unlink()
        return figures


def train_a_step(step):
    generator = torch.Generator().manual_seed(dist.get_rank())
    tokens = torch.randint(VOCABULARY, (LOAD.micro_batch, LOAD.context + 1), generator=generator)
    step(tokens[:, :-1], tokens[:, 1:])


def sum_of(tensors):
    """The sum over all elements of all ranks, which a load must restore."""
    total = torch.zeros(1, dtype=torch.float64)
    for tensor in tensors:
        total += tensor.detach().double().abs().sum()
    dist.all_reduce(total)
    return total.item()


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Dcp:
    """FSDP2 with torch.distributed.checkpoint, which syncs its files."""

    def __init__(self, _):
        from torch.distributed.checkpoint.state_dict import get_state_dict
        self.model = frameworks.fsdp2_model(LOAD, gpt.ConstantWeights(), True, "fp32")
        self.optimizer = frameworks.adamw(self.model, fused=True)
        train_a_step(frameworks.torch_step(self.model, True, optimizer=self.optimizer))
        self.get = lambda: dict(zip(("model", "optimizer"), get_state_dict(self.model, self.optimizer)))

    def tensors(self):
        moments = (state[name] for state in self.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
        return [local(tensor) for tensor in [*self.model.parameters(), *moments]]

    def save(self, folder):
        import torch.distributed.checkpoint as dcp
        figures = {"save": timed(lambda: dcp.save(self.get(), checkpoint_id=folder / "saved"))}
        group = dist.new_group(backend="gloo")
        began, growth = time.perf_counter(), Growth()
        waiting = []
        figures["async_save_blocks"] = timed(lambda: waiting.append(
            dcp.async_save(self.get(), checkpoint_id=folder / "saved_beside", process_group=group)))
        waiting[0].result()
        dist.barrier()
        return figures | {"async_save": time.perf_counter() - began, "async_save_bytes": growth.peak()}

    def load(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict
        state = self.get()
        dcp.load(state, checkpoint_id=folder / "saved")
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


class DeepSpeed:
    """ZeRO 3. Another number of ranks loads files that ds_to_universal converts. Its files are not synced."""

    def __init__(self, what):
        self.universal = what == "load"
        more = {"checkpoint": {"load_universal": self.universal}}
        self.engine = frameworks.deepspeed_engine(LOAD, gpt.ConstantWeights(), 3, True, "fp32", more)
        train_a_step(frameworks.deepspeed_step(self.engine))

    def tensors(self):
        optimizer = self.engine.optimizer
        masters = optimizer.fp32_partitioned_groups_flat
        moments = (optimizer.optimizer.state[master][name] for master in masters for name in ("exp_avg", "exp_avg_sq"))
        return [*masters, *moments]

    def save(self, folder):
        figures = {"save": timed(lambda: self.engine.save_checkpoint(folder, tag="saved"))}
        forget(folder)
        return figures | {"convert": timed(lambda: self.convert(folder))}

    def convert(self, folder):
        if dist.get_rank() == 0:
            subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder",
                            folder / "saved", "--output_folder", folder / "saved_universal", "--num_extract_workers",
                            "2", "--num_merge_workers", "2"], check=True)

    def load(self, folder):
        path, _ = self.engine.load_checkpoint(folder, tag="saved_universal" if self.universal else "saved")
        if path is None:
            raise OSError(f"DeepSpeed found nothing to load in {folder}")


CASES = {"dcp": Dcp, "deepspeed": DeepSpeed}


def load(case, folder):
    """Loads a checkpoint and returns the seconds. Checks the states by their sum, which `folder` has."""
    with torch.no_grad():
        for tensor in case.tensors():
            tensor.zero_()
    forget(folder)
    seconds = timed(lambda: case.load(folder))
    saved, loaded = float((folder / "sum").read_text(encoding="utf-8")), sum_of(case.tensors())
    if abs(loaded - saved) > 1e-6 * abs(saved):
        raise ValueError(f"the states that were loaded add up to {loaded}, and those that were saved to {saved}")
    return seconds


def main(words=None):
    options = arguments(words)
    torch.set_num_threads(1)
    with frameworks.process_group(options.peer):
        case = CASES[options.peer](options.what)
        size = sum(tensor.numel() * tensor.element_size() for tensor in case.tensors())
        figures = {"bytes_of_rank": size, **Raw(options.folder, size).measure()}
        if options.what == "save":
            total = sum_of(case.tensors())
            if dist.get_rank() == 0:
                (options.folder / "sum").write_text(repr(total), encoding="utf-8")
            figures |= case.save(options.folder)
        figures["load"] = load(case, options.folder)
        if dist.get_rank() == 0:
            options.out.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
