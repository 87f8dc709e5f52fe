# SPDX-License-Identifier: Apache-2.0
"""One rank of torch.distributed.pipelining over gloo, started by pipeline.py. Writes the same files as train.py.

Each rank has one chunk of the model, or two if the schedule needs them. In bf16 the math uses autocast and messages are
bf16; masters are fp32.
"""

import dataclasses

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn import functional

import frameworks
import gpt
import peer_rank
from loads import CLIPPING, IDLE, VOCABULARY

# The chunks of a rank, in order of forward.
PLACES = {"loop": lambda rank, world: (rank, rank + world), "v": lambda rank, world: (rank, 2 * world - 1 - rank),
          "one": lambda rank, world: (rank,)}
SCHEDULES = {"gpipe": ("one", pipelining.ScheduleGPipe), "1f1b": ("one", pipelining.Schedule1F1B),
             "interleaved_1f1b": ("loop", pipelining.ScheduleInterleaved1F1B),
             "zbv": ("v", pipelining.ScheduleZBVZeroBubble)}


class Chunk(nn.Module):
    """Consecutive blocks of gpt.Gpt, with the embeddings before them or the untied head after them."""

    def __init__(self, load, number, chunks, precision):
        super().__init__()
        self.precision, self.first, self.last = precision, number == 0, number + 1 == chunks
        begin, end = number * load.layers // chunks, (number + 1) * load.layers // chunks
        if self.first:
            self.wte = nn.Parameter(torch.empty(VOCABULARY, load.channels))
            self.wpe = nn.Parameter(torch.empty(load.context, load.channels))
        self.h = nn.ModuleDict({str(block): gpt.Block(load) for block in range(begin, end)})
        if self.last:
            self.ln_f = nn.LayerNorm(load.channels)
            self.lm_head = nn.Linear(load.channels, VOCABULARY, bias=False)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            if self.first:
                x = functional.embedding(x, self.wte) + self.wpe
            for block in self.h.values():
                x = block(x)
            if self.last:
                return self.lm_head(self.ln_f(x)).float()
        return x.to(torch.bfloat16) if self.precision == "bf16" else x


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def clip(parameters):
    """Clips gradients by the norm over all ranks."""
    squares = sum(p.grad.square().sum() for p in parameters if p.grad is not None)
    dist.all_reduce(squares)
    factor = (CLIPPING / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for p in parameters:
        p.grad.mul_(factor)


def pipeline_step(load, weights, options, micro_steps):
    rank, world = dist.get_rank(), dist.get_world_size()
    places, make = SCHEDULES[options.schedule]
    mine = PLACES[places](rank, world)
    chunks = world * len(mine)
    modules = []
    for number in mine:
        with torch.device("meta"):
            modules.append(Chunk(load, number, chunks, options.precision))
        frameworks.materialise(modules[-1], weights)
    stages = [pipelining.PipelineStage(module, number, chunks, torch.device("cpu"))
              for module, number in zip(modules, mine)]
    schedule = make(stages[0] if places == "one" else stages, micro_steps, loss_fn=loss_of)
    model = nn.ModuleList(modules)
    optimizer = frameworks.adamw(model, fused=options.variant != "default" or None)
    has_first, has_last = 0 in mine, chunks - 1 in mine

    def step(inputs, targets):
        losses = []
        schedule.step(*([inputs] if has_first else []), **({"target": targets, "losses": losses} if has_last else {}))
        clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(losses).mean() if has_last else torch.zeros(())
        dist.all_reduce(loss)  # on all ranks, as in Zeroth's report
        return loss.item()

    return step


def main(words=None):
    options = peer_rank.arguments(__doc__, "schedule", SCHEDULES, words)
    micro_steps = 2 * peer_rank.world_size()
    # One block per chunk: a chunk without blocks would have no parameters.
    idle = dataclasses.replace(IDLE, layers=micro_steps, micro_batch=micro_steps)
    peer_rank.run(options, pipeline_step, idle, micro_steps)
