# SPDX-License-Identifier: Apache-2.0
"""One rank of a case of silent.py: the network of bench/silent.cpp, trained by a spec. Writes PREFIX.<rank>.json: norms
of all steps, and the final weights that this rank can read."""

import argparse
import contextlib
import json
import os
import pathlib
import types

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

WIDTH, TOKENS = 16, 4
NAMES = ("first", "middle", "last")


def numbers(stream, rows, columns):
    """The numbers of bench/silent.cpp, which are exact in bf16."""
    values = [((((stream * 1009 + i + 1) * 2654435761) % 2**32 >> 26) * 2 - 63) / 128 for i in range(rows * columns)]
    return torch.tensor(values, dtype=torch.float64).reshape(rows, columns)


def sample(index, uneven):
    valid = 1 + (index * 5 + index // 4) % TOKENS if uneven else TOKENS
    return 2 * numbers(100 + 2 * index, TOKENS, WIDTH), numbers(101 + 2 * index, TOKENS, WIDTH), valid


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH))
        self.bias = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return x @ self.weight + self.bias


class Network(nn.Module):
    def __init__(self, uses=1, recompute=""):
        super().__init__()
        self.uses, self.recompute = uses, recompute
        self.first, self.middle, self.last = Affine(), Affine(), Affine()

    def run_middle(self, h):
        return torch.tanh(self.middle(h))

    def forward(self, x):
        h = torch.tanh(self.first(x))
        for _ in range(self.uses):
            h = checkpoint(self.run_middle, h, use_reentrant=self.recompute == "reentrant") if self.recompute else self.run_middle(h)
        return self.last(h)


@torch.no_grad()
def set_layer(layer, place):
    layer.weight.copy_(numbers(2 * place, WIDTH, WIDTH))
    layer.bias.copy_(numbers(2 * place + 1, 1, WIDTH)[0])


def made_layer(kind, place):
    layer = kind()
    set_layer(layer, place)
    return layer


def made_network(spec):
    network = Network(spec.uses, spec.recompute)
    for place, name in enumerate(NAMES):
        set_layer(getattr(network, name), place)
    return network


class Samples:
    """Samples in Zeroth's order: step, micro-step, rank."""

    def __init__(self, spec, place, shares):
        self.spec, self.place, self.shares = spec, place, shares

    def of(self, step, micro, dtype=torch.float32):
        index = (step * self.spec.micro_steps + micro) * self.shares + self.place
        inputs, targets, valid = sample(index, self.spec.uneven)
        return inputs.to(dtype), targets.to(dtype), valid

    def valid_in(self, step):
        """The number of tokens that count, over all ranks and micro-steps."""
        count = self.spec.micro_steps * self.shares
        return sum(sample(step * count + i, self.spec.uneven)[2] for i in range(count))


def summed_loss(output, targets, valid):
    """The sum of losses over the tokens that count."""
    return (output.double() if output.dtype == torch.float64 else output.float()).sub(targets)[:valid].square().sum() / WIDTH


def made_optimizer(spec, parameters):
    kind = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW, "Muon": torch.optim.Muon}[spec.optimizer]
    more = {"weight_decay": 0.0} if spec.optimizer != "SGD" else {}
    return kind(parameters, lr=spec.lr, **more)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def as_lists(named):
    return {name.removeprefix("module."): tensor.detach().double().flatten().tolist() for name, tensor in named}


# ---- the right result: one process, fp64, the loss of a step over all its tokens ----


def reference(spec, _rank, _world):
    network = made_network(spec).double()
    optimizers = optimizers_of(spec, network)
    samples = Samples(spec, 0, spec.shares)
    norms = []
    for step in range(spec.steps):
        total = samples.valid_in(step)
        for micro in range(spec.micro_steps):
            for samples.place in range(spec.shares):
                inputs, targets, valid = samples.of(step, micro, torch.float64)
                (summed_loss(network(inputs), targets, valid) / total).backward()
        norms.append(nn.utils.get_total_norm([p.grad for p in network.parameters()]).item())
        advance(optimizers)
    return norms, as_lists(network.named_parameters())


def optimizers_of(spec, network):
    """Muon takes only matrices; vectors are not updated."""
    return [made_optimizer(spec, [p for p in network.parameters() if spec.optimizer != "Muon" or p.dim() == 2])]


def advance(optimizers):
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


# ---- torch ----


def wrapped(spec, network):
    dtype = torch.bfloat16 if spec.precision == "bf16" else None
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    if spec.system == "ddp":
        return DistributedDataParallel(network)
    if spec.system == "replicate":
        from torch.distributed._composable.replicate_with_fsdp import replicate as wrap
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("replicate",))
    else:
        wrap = fully_shard
        names = ("replicate", "shard")[-len(spec.mesh):] if spec.mesh else ("shard",)
        mesh = dist.init_device_mesh("cpu", tuple(spec.mesh or (dist.get_world_size(),)), mesh_dim_names=names)
    for name in NAMES:
        wrap(getattr(network, name), mesh=mesh, mp_policy=policy)
    wrap(network, mesh=mesh, mp_policy=policy)
    if spec.summed:
        for module in [*(getattr(network, name) for name in NAMES), network]:
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot divide in a sum
    return network


def before_micro_step(spec, model, last):
    """Accumulates as each system's documentation says: reduces in the last micro-step, or reduces across groups in
    it."""
    if spec.system == "ddp":
        return contextlib.nullcontext() if last else model.no_sync()
    if spec.delay == "all":
        model.set_requires_gradient_sync(last)
    elif spec.delay == "across groups":
        model.set_requires_all_reduce(last)
    return contextlib.nullcontext()


def train_torch(spec, rank, world):
    network = made_network(spec)
    model = wrapped(spec, network)
    optimizers = optimizers_of(spec, network)
    if spec.save:
        get_optimizer_state_dict(model, optimizers[0])
    samples = Samples(spec, rank, world)
    norms = []
    for step in range(spec.steps):
        for micro in range(spec.micro_steps):
            inputs, targets, valid = samples.of(step, micro)
            with before_micro_step(spec, model, micro + 1 == spec.micro_steps), torch.autocast(
                    "cpu", dtype=torch.bfloat16, enabled=spec.system == "ddp" and spec.precision == "bf16"):
                loss = summed_loss(model(inputs), targets, valid)
                if spec.loss == "mean":
                    loss = loss / valid / spec.micro_steps
                else:
                    loss = loss / samples.valid_in(step) * (world if spec.loss == "of all tokens, times ranks" else 1)
                loss.backward()
        norms.append(whole(nn.utils.get_total_norm([p.grad for p in network.parameters()])).item())
        advance(optimizers)
    return norms, as_lists((name, whole(p)) for name, p in network.named_parameters())


def torch_pipeline(spec, rank, _world):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    part = pipeline_parts()[rank]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, spec.micro_steps, loss_fn=lambda o, t: (o - t).square().mean())
    optimizers = [made_optimizer(spec, part.parameters())]
    samples = Samples(spec, 0, 1)
    norms = []
    for step in range(spec.steps):
        batch = [samples.of(step, micro) for micro in range(spec.micro_steps)]
        inputs, targets = (torch.cat([each[i] for each in batch]) for i in (0, 1))
        schedule.step(*([inputs] if rank == 0 else []), **({"target": targets, "losses": []} if rank == 1 else {}))
        square = nn.utils.get_total_norm([p.grad for p in part.parameters()]).square()
        dist.all_reduce(square)
        norms.append(square.sqrt().item())
        advance(optimizers)
    return norms, as_lists(part.named_parameters())


def pipeline_parts():
    first, middle, last = (made_layer(Affine, place) for place in range(len(NAMES)))
    return Part({"first": first, "middle": middle}, bent=True), Part({"last": last}, bent=False)


class Part(nn.Module):
    """Layers of a pipeline stage, by their names in the whole network."""

    def __init__(self, layers, bent):
        super().__init__()
        self.bent = bent
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        for layer in self.children():
            x = torch.tanh(layer(x)) if self.bent else layer(x)
        return x


# ---- DeepSpeed ----


def deepspeed_config(spec):
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": spec.micro_steps, "gradient_clipping": 1e9,
            "zero_allow_untested_optimizer": True, "steps_per_print": 1_000_000, "bf16": {"enabled": spec.precision == "bf16"},
            "zero_optimization": {"stage": spec.stage, **spec.zero}, **spec.config}


@torch.no_grad()
def load_partitioned(network):
    import deepspeed
    for place, name in enumerate(NAMES):
        layer = getattr(network, name)
        with deepspeed.zero.GatheredParameters(list(layer.parameters()), modifier_rank=0):
            if dist.get_rank() == 0:
                set_layer(layer, place)


def deepspeed_network(spec, config):
    import deepspeed
    if not spec.zero_init:
        return made_network(spec)
    with deepspeed.zero.Init(config_dict_or_path=config):
        network = Network(spec.uses, spec.recompute)
    load_partitioned(network)
    return network


def deepspeed_norm(engine):
    """None if DeepSpeed reports no norm, as at stage 0 in fp32."""
    norm = engine.get_global_grad_norm()
    return None if norm is None else float(norm)


def deepspeed_weights(spec, engine):
    from deepspeed.utils import safe_get_full_fp32_param
    named = list(engine.module.named_parameters())
    if spec.stage == 0:
        masters = [p for group in getattr(engine.optimizer, "fp32_groups", []) for p in group] or [p for _, p in named]
        return as_lists((name, master) for (name, _), master in zip(named, masters))
    return as_lists((name, safe_get_full_fp32_param(p)) for name, p in named if p.requires_grad)


def train_deepspeed(spec, rank, world):
    import deepspeed
    config = deepspeed_config(spec)
    network = deepspeed_network(spec, config)
    for parameter in network.parameters():  # otherwise its Muon compiles an Adam for vectors
        parameter.requires_grad_(spec.optimizer != "Muon" or len(getattr(parameter, "ds_shape", parameter.shape)) == 2)
    optimizer = None if "optimizer" in config else made_optimizer(spec, network.parameters())
    trained = [p for p in network.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, model_parameters=trained, config=config)
    if spec.save:
        engine.save_checkpoint(spec.save)
    samples = Samples(spec, rank, world)
    dtype = torch.bfloat16 if spec.precision == "bf16" else torch.float32
    norms = []
    for step in range(spec.steps):
        for micro in range(spec.micro_steps):
            inputs, targets, valid = samples.of(step, micro)
            loss = summed_loss(engine(inputs.to(dtype)), targets, valid)
            # backward() divides by the number of micro-steps
            engine.backward(loss * spec.micro_steps / samples.valid_in(step) if spec.loss == "of all tokens" else loss / valid)
            engine.step()
        norms.append(deepspeed_norm(engine))
    return norms, deepspeed_weights(spec, engine)


class Bent(Affine):
    def forward(self, x):
        return torch.tanh(super().forward(x))


def deepspeed_pipeline(spec, rank, _world):
    import deepspeed
    from deepspeed.pipe import PipelineModule
    layers = [made_layer(kind, place) for place, kind in enumerate((Bent, Bent, Affine))]
    network = PipelineModule(layers, num_stages=2, loss_fn=lambda o, t: (o - t).square().mean(), partition_method="uniform")
    engine, *_ = deepspeed.initialize(model=network, config=deepspeed_config(spec), model_parameters=network.parameters(),
                                      optimizer=made_optimizer(spec, network.parameters()))
    samples = Samples(spec, 0, 1)
    batches = (samples.of(step, micro)[:2] for step in range(spec.steps) for micro in range(spec.micro_steps))
    norms = []
    for _ in range(spec.steps):
        engine.train_batch(batches)
        norms.append(deepspeed_norm(engine))
    return norms, as_lists((f"{NAMES[int(name.split('.')[0])]}.{name.split('.')[1]}", p)
                           for name, p in engine.module.named_parameters())


SYSTEMS = {"fp64": reference, "ddp": train_torch, "fsdp2": train_torch, "replicate": train_torch,
           "torch pipeline": torch_pipeline, "deepspeed": train_deepspeed, "deepspeed pipeline": deepspeed_pipeline}


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON")
    parser.add_argument("--out", required=True)
    options = parser.parse_args(words)
    spec = types.SimpleNamespace(**json.loads(options.spec))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if spec.system.startswith("deepspeed"):
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    norms, weights = SYSTEMS[spec.system](spec, rank, world)
    dist.barrier()
    dist.destroy_process_group()
    pathlib.Path(f"{options.out}.{rank}.json").write_text(json.dumps({"norms": norms, "weights": weights}), encoding="utf-8")


if __name__ == "__main__":
    main()
