# SPDX-License-Identifier: Apache-2.0
"""Muon as a program would write it on torch.distributed: each rank has a slice of every matrix and of its momentum, one rank
owns each matrix, and two all-to-alls move directions there and results back."""

import torch
from torch import distributed as dist

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(x, steps):
    """The Newton-Schulz iterations of a bf16 matrix, as in torch.optim.Muon."""
    a, b, c = COEFFICIENTS
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def cost(shape):
    n, m = min(shape), max(shape)
    return 3 * n * n * m + n ** 3


def owners_of(shapes, world):
    """The owner of each matrix: the most costly matrix first, each to the rank with the least load."""
    load, owners = [0] * world, [0] * len(shapes)
    for place in sorted(range(len(shapes)), key=lambda i: -cost(shapes[i])):
        owners[place] = min(range(world), key=load.__getitem__)
        load[owners[place]] += cost(shapes[place])
    return owners


class OwnersMuon:
    """`parameters`: whole matrices. `gradients`: this rank's slices of their gradients, rows [rank/world, (rank +
    1)/world)."""

    def __init__(self, parameters, lr, momentum, weight_decay, nesterov, ns_steps, adjust_lr_fn):
        self.lr, self.mix, self.decay, self.nesterov, self.steps = lr, 1 - momentum, weight_decay, nesterov, ns_steps
        assert adjust_lr_fn == "match_rms_adamw"
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.slices = [p.chunk(self.world)[self.rank] for p in parameters]
        self.parameters, self.momenta = parameters, [torch.zeros_like(part) for part in self.slices]
        owners = owners_of([p.shape for p in parameters], self.world)
        self.of = [[i for i, owner in enumerate(owners) if owner == rank] for rank in range(self.world)]

    @torch.no_grad()
    def step(self, gradients):
        torch._foreach_lerp_(self.momenta, gradients, self.mix)
        directions = torch._foreach_lerp(gradients, self.momenta, 1 - self.mix) if self.nesterov else self.momenta
        directions = [direction.bfloat16() for direction in directions]
        mine = self.of[self.rank]
        sent = [torch.cat([directions[i].flatten() for i in of] or [torch.empty(0, dtype=torch.bfloat16)]) for of in self.of]
        received = exchanged(sent, [sent[self.rank].numel()] * self.world)
        parts = [piece.split([directions[i].numel() for i in mine]) for piece in received]
        results = []
        for place, i in enumerate(mine):
            whole = torch.cat([part[place] for part in parts]).view_as(self.parameters[i])
            results.append(orthogonal(whole, self.steps) * (0.2 * max(whole.shape) ** 0.5))
        back = [torch.cat([result.chunk(self.world)[rank].flatten() for result in results]) for rank in range(self.world)]
        returned = exchanged(back, [piece.numel() for piece in sent])
        for of, piece in zip(self.of, returned):
            for i, direction in zip(of, piece.split([directions[i].numel() for i in of])):
                self.slices[i].mul_(1 - self.lr * self.decay).add_(direction.view_as(self.slices[i]), alpha=-self.lr)
        gather(self.parameters, self.slices)


def exchanged(sent, counts):
    """One all-to-all of bf16 numbers, as bytes for gloo."""
    received = torch.empty(sum(counts), dtype=torch.bfloat16)
    dist.all_to_all_single(received.view(torch.uint8), torch.cat(sent).view(torch.uint8), [2 * count for count in counts],
                           [2 * piece.numel() for piece in sent])
    return received.split(counts)


def gather(parameters, slices):
    """All ranks' slices, in one all-gather."""
    flat = torch.cat([part.flatten() for part in slices])
    gathered = torch.empty(dist.get_world_size() * flat.numel())
    dist.all_gather_into_tensor(gathered, flat)
    for piece, rank in zip(gathered.chunk(dist.get_world_size()), range(dist.get_world_size())):
        for parameter, part in zip(parameters, piece.split([part.numel() for part in slices])):
            own = parameter.chunk(dist.get_world_size())[rank]
            own.copy_(part.view_as(own))
