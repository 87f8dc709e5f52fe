# SPDX-License-Identifier: Apache-2.0
"""One tensor rank of a peer over gloo, started by tensor.py. Writes the same files as train.py.

Ranks divide the heads of attention, the hidden channels of the MLP, and the vocabulary of embedding, head and
cross-entropy, as Zeroth's do. Each has the whole position embeddings. `--peer dtensor` is torch's ColwiseParallel,
RowwiseParallel and loss_parallel, `dtensor_sequence` the same with SequenceParallel between them, `megatron`
Megatron-Core's ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding and vocab_parallel_cross_entropy. A peer
with the suffix `_whole` has embedding and head whole on each rank, which takes more memory and fewer collectives.

By default, a model of DTensors has a norm and an update for each tensor, and uses autocast in bf16. Tuned, AdamW is
fused and updates this rank's parts, gradients of whole parameters are summed together, the norm is one sum, and in bf16
parameters are bf16 with masters in fp32.
"""

import contextlib
import dataclasses

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

import frameworks
import gpt
import peer_rank
from loads import CLIPPING, IDLE, VOCABULARY

PEERS = ("dtensor", "dtensor_sequence", "dtensor_whole", "dtensor_sequence_whole", "megatron", "megatron_whole")
# {end of a parameter's name: dimension that ranks divide}, for torch's matrices, [out, in].
CUTS = {"wte.weight": 0, "c_attn.weight": 0, "c_attn.bias": 0, "c_fc.weight": 0, "c_fc.bias": 0, "c_proj.weight": 1}


def cut_of(name):
    return next((dim for end, dim in CUTS.items() if name.endswith(end)), None)


def part_of(name, whole, rank, world):
    """This rank's part of a parameter; for queries, keys and values, its heads of each."""
    dim = cut_of(name)
    if dim is None or whole.dim() == 0:  # the idle model's parameters are single numbers
        return whole
    sections = whole.chunk(3) if "c_attn" in name else [whole]
    return torch.cat([section.chunk(world, dim)[rank] for section in sections], dim)


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class SequenceGpt(gpt.Gpt):
    """Each rank has a part of the context between products; embedding and head are whole."""

    def layers(self, x):
        return super().layers(own_part(x, self.ln_f.weight.device_mesh, 1)).full_tensor()


class DividedGpt(gpt.Gpt):
    """Each rank has a part of the vocabulary. Embedding and head are modules, since torch divides modules."""

    def __init__(self, load):
        super().__init__(load)
        del self.wte
        self.wte = nn.Embedding(VOCABULARY, load.channels)
        self.lm_head = nn.Linear(load.channels, VOCABULARY, bias=False)

    def _apply(self, *arguments, **named):
        """Ties the head again: to_empty() and to() call this, and may replace each module's parameter."""
        super()._apply(*arguments, **named)
        self.lm_head.weight = self.wte.weight
        return self

    def positions(self):
        return self.wpe

    def forward(self, inputs, targets):
        logits = self.lm_head(self.layers(self.wte(inputs) + self.positions())).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class DividedSequenceGpt(DividedGpt):
    def positions(self):
        return own_part(self.wpe, self.ln_f.weight.device_mesh, 0)


def own_part(whole, mesh, dim):
    """This rank's part of a tensor that all have; its gradient is gathered."""
    return DTensor.from_local(whole, mesh, [Replicate()], run_check=False).redistribute(placements=[Shard(dim)]).to_local()


def dtensor(load, sequence, whole):
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    kind = (SequenceGpt if sequence else gpt.Gpt) if whole else (DividedSequenceGpt if sequence else DividedGpt)
    with torch.device("meta"):
        model = kind(load)
    between = Shard(1) if sequence else Replicate()
    plan = {}
    for first, second in (("attn.c_attn", "attn.c_proj"), ("mlp.c_fc", "mlp.c_proj")):
        plan[first] = ColwiseParallel()
        plan[second] = RowwiseParallel(output_layouts=between)
    if sequence:
        plan |= {name: SequenceParallel() for name in ("ln_1", "ln_2")}
        plan |= {name: PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()) for name in ("attn", "mlp")}
    for block in model.h:
        parallelize_module(block, mesh, plan, src_data_rank=None)
    ends = {"ln_f": SequenceParallel()} if sequence else {}
    if not whole:
        ends["wte"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
        ends["lm_head"] = ColwiseParallel(input_layouts=between, use_local_output=False)
    parallelize_module(model, mesh, ends, src_data_rank=None)
    return model


def megatron(load, whole):
    from megatron.core import ModelParallelConfig, parallel_state, tensor_parallel

    if not parallel_state.model_parallel_is_initialized():  # the cross-entropy gets the ranks from it
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=dist.get_world_size())

    class Column(tensor_parallel.ColumnParallelLinear):
        def forward(self, *inputs):
            return super().forward(*inputs)[0]

    class Row(tensor_parallel.RowParallelLinear):
        def forward(self, x):
            return super().forward(x)[0]

    class MegatronGpt(gpt.Gpt):
        """A model with a part of the vocabulary on each rank."""

        def __init__(self, load):
            super().__init__(load)
            del self.wte
            self.wte = tensor_parallel.VocabParallelEmbedding(VOCABULARY, load.channels, init_method=None, config=config,
                                                              tp_group=dist.group.WORLD)
            self.lm_head = Column(load.channels, VOCABULARY, gather_output=False, skip_weight_param_allocation=True,
                                  **common | {"bias": False})

        def forward(self, inputs, targets):
            logits = self.lm_head(self.layers(self.wte(inputs) + self.wpe), self.wte.weight)
            return tensor_parallel.vocab_parallel_cross_entropy(logits, targets).mean()

    config = ModelParallelConfig(tensor_model_parallel_size=dist.get_world_size(), use_cpu_initialization=True,
                                 perform_initialization=False)
    common = {"config": config, "init_method": None, "bias": True, "skip_bias_add": False, "tp_group": dist.group.WORLD}
    channels = load.channels
    with torch.device("meta"):
        model = gpt.Gpt(load) if whole else MegatronGpt(load)
        for block in model.h:
            block.attn.c_attn = Column(channels, 3 * channels, gather_output=False, **common)
            block.attn.c_proj = Row(channels, channels, input_is_parallel=True, **common)
            block.mlp.c_fc = Column(channels, 4 * channels, gather_output=False, **common)
            block.mlp.c_proj = Row(4 * channels, channels, input_is_parallel=True, **common)
    return model


@torch.no_grad()
def materialise(model, weights):
    model.to_empty(device="cpu")
    for name, parameter in model.named_parameters():
        local(parameter).copy_(part_of(name, weights[name], dist.get_rank(), dist.get_world_size()))


class ByTensor:
    """AdamW and clipping of torch, for DTensors and plain tensors separately."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.optimizer = frameworks.adamw(model, fused=None)

    def step(self):
        kinds = [[p for p in self.parameters if isinstance(p, DTensor) is kind] for kind in (True, False)]
        norms = [nn.utils.get_total_norm([p.grad for p in kind]) for kind in kinds if kind]
        norm = torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()
        for kind in kinds:
            nn.utils.clip_grads_with_norm_(kind, CLIPPING, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()


class OfParts:
    """Fused AdamW of this rank's parts in fp32, with one sum for all partial gradients, and one for the norm."""

    def __init__(self, model, precision):
        names = [name for name, _ in model.named_parameters()]
        self.is_cut = [cut_of(name) is not None for name in names]
        self.masters = nn.ParameterList(nn.Parameter(local(p.detach())) for p in model.parameters())
        if precision == "bf16":
            model.to(torch.bfloat16)
        self.parameters = list(model.parameters())
        self.optimizer = frameworks.adamw(self.masters, fused=True)

    @torch.no_grad()
    def step(self):
        partial = []
        for master, parameter in zip(self.masters, self.parameters):
            gradient, parameter.grad = parameter.grad, None
            master.grad = local(gradient).float()
            if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
                partial.append(master.grad)
        if partial:
            flat = torch.cat([gradient.flatten() for gradient in partial])
            dist.all_reduce(flat)
            for gradient, total in zip(partial, flat.split([gradient.numel() for gradient in partial])):
                gradient.copy_(total.view_as(gradient))
        gradients = [master.grad for master in self.masters]
        cut, whole = (sum(g.square().sum() for g, is_cut in zip(gradients, self.is_cut) if is_cut is kind) for kind in (True, False))
        dist.all_reduce(cut)
        factor = (CLIPPING / ((cut + whole).sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for master, parameter in zip(self.masters, self.parameters):
            if parameter.dtype != master.dtype:
                local(parameter).copy_(master)


def tensor_step(load, weights, options, micro_steps):
    peer, *how = options.peer.split("_")
    whole = "whole" in how
    model = megatron(load, whole) if peer == "megatron" else dtensor(load, "sequence" in how, whole)
    materialise(model, weights)
    by_tensor = options.variant == "default"
    update = ByTensor(model) if by_tensor else OfParts(model, options.precision)
    autocast = by_tensor and options.precision == "bf16"

    def step(inputs, targets):
        total = 0.0
        for micro_inputs, micro_targets in zip(inputs.chunk(micro_steps), targets.chunk(micro_steps)):
            with loss_parallel() if peer == "dtensor" and not whole else contextlib.nullcontext():
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                    loss = model(micro_inputs, micro_targets) / micro_steps
                loss.backward()
            total += local(loss).item()
        update.step()
        return total

    return step


def main(words=None):
    options = peer_rank.arguments(__doc__, "peer", PEERS, words)
    world = peer_rank.world_size()
    idle = dataclasses.replace(IDLE, heads=world, channels=8 * world, micro_batch=options.micro_steps)
    packages = ("torch", "megatron-core") if options.peer.startswith("megatron") else ("torch",)
    peer_rank.run(options, tensor_step, idle, options.micro_steps, packages)


if __name__ == "__main__":
    main()
