# SPDX-License-Identifier: Apache-2.0
"""The peers. Each function makes the model, wraps it, sets its `weights`, and returns step(inputs, targets) -> loss. In
bf16 each has fp32 master weights that start exactly from `weights`, and otherwise follows its documentation."""

import contextlib

import torch
from torch import distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import gpt
from loads import CLIPPING, MUON, OPTIMIZER, PREFETCH_BUCKET, REDUCE_BUCKET, on_disk


def groups(model):
    """Weight decay applies to parameters of two or more dimensions only."""
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if len(getattr(p, "ds_shape", p.shape)) >= 2],
             "weight_decay": OPTIMIZER["weight_decay"]},
            {"params": [p for p in parameters if len(getattr(p, "ds_shape", p.shape)) < 2], "weight_decay": 0.0}]


def adam_arguments():
    return {"lr": OPTIMIZER["lr"], "betas": tuple(OPTIMIZER["betas"]), "eps": OPTIMIZER["eps"]}


def empty_model(load):
    with torch.device("meta"):
        return gpt.Gpt(load)


@torch.no_grad()
def materialise(model, weights):
    """Gives a model on the meta device, sharded or not, memory and its weights; each rank reads its own part."""
    model.to_empty(device="cpu")
    for name, parameter in model.named_parameters():
        tensor = weights[name].expand(parameter.shape)
        if isinstance(parameter, torch.distributed.tensor.DTensor):
            shard = distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.to_local().copy_(shard.to_local())
        else:
            parameter.copy_(tensor)


def adamw(model, fused):
    return torch.optim.AdamW(groups(model), fused=fused, **adam_arguments())


def torch_step(model, fused, autocast=False, optimizer=None):
    optimizer = optimizer or adamw(model, fused)

    def step(inputs, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPING)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def ddp(load, weights, tuned, precision, make_optimizer=None):
    model = empty_model(load)
    materialise(model, weights)
    options = {"gradient_as_bucket_view": True, "static_graph": True} if tuned else {}
    optimizer = make_optimizer(model, tuned or None) if make_optimizer else None
    return torch_step(DistributedDataParallel(model, **options), fused=tuned or None, autocast=precision == "bf16",
                      optimizer=optimizer)


def is_hidden_matrix(name, parameter):
    """Whether Muon updates a parameter: the four matrices of a block, as train_gpt marks them."""
    return name.startswith("h.") and parameter.dim() == 2


class MuonAndAdamW:
    """torch.optim.Muon for the matrices of blocks, and AdamW for all other parameters."""

    def __init__(self, model, fused):
        named = list(model.named_parameters())
        others = torch.nn.ParameterList(p for name, p in named if not is_hidden_matrix(name, p))
        self.optimizers = [torch.optim.Muon([p for name, p in named if is_hidden_matrix(name, p)], **MUON), adamw(others, fused)]

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()


def ddp_muon(load, weights, tuned, precision):
    return ddp(load, weights, tuned, precision, MuonAndAdamW)


def fsdp2_model(load, weights, tuned, precision):
    model = empty_model(load)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    dtype = torch.bfloat16 if precision == "bf16" else None
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    for block in model.h:
        fully_shard(block, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if tuned:
        for earlier, later in zip(model.h, model.h[1:]):
            earlier.set_modules_to_forward_prefetch([later])
            later.set_modules_to_backward_prefetch([earlier])
    materialise(model, weights)
    return model


def fsdp2(load, weights, tuned, precision):
    return torch_step(fsdp2_model(load, weights, tuned, precision), fused=tuned or None)


def deepspeed_config(load, stage, tuned, precision, nvme=None):
    zero = {"stage": stage} | (on_disk(nvme) if nvme else {})
    if tuned:
        zero |= {"overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": REDUCE_BUCKET,
                 "allgather_bucket_size": REDUCE_BUCKET}
        if stage == 3:
            zero |= {"stage3_prefetch_bucket_size": PREFETCH_BUCKET}
    return {"train_micro_batch_size_per_gpu": load.micro_batch, "gradient_clipping": CLIPPING,
            "zero_optimization": zero, "bf16": {"enabled": precision == "bf16"}, "steps_per_print": 1_000_000}


def load_partitioned(model, weights):
    """Loads ZeRO-3's parameters one at a time: rank 0 has the whole parameter and sends each rank its part."""
    import deepspeed
    for name, parameter in model.named_parameters():
        with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0), torch.no_grad():
            if dist.get_rank() == 0:
                parameter.copy_(weights[name])


@torch.no_grad()
def set_masters(model, weights):
    """Sets masters exactly: DeepSpeed makes them from parameters that it has rounded to bf16."""
    from deepspeed.utils import safe_set_full_fp32_param
    for name, parameter in model.named_parameters():
        shape = getattr(parameter, "ds_shape", parameter.shape)  # under ZeRO-3 the parameter itself is partitioned
        safe_set_full_fp32_param(parameter, weights[name].expand(shape))


def deepspeed_engine(load, weights, stage, tuned, precision, more=None, nvme=None):
    """`more`: sections of its file in addition to the common ones. `nvme`: a folder for the optimizer's states."""
    import deepspeed
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    config = deepspeed_config(load, stage, tuned, precision, nvme) | (more or {})
    if stage == 3:
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = gpt.Gpt(load)
        load_partitioned(model, weights)
    else:
        model = empty_model(load)
        materialise(model, weights)
    optimizer = DeepSpeedCPUAdam(groups(model), adamw_mode=True, **adam_arguments())
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    if precision == "bf16":
        set_masters(engine.module, weights)
    return engine


def deepspeed_step(engine):
    def step(inputs, targets):
        loss = engine(inputs, targets)
        engine.backward(loss)
        engine.step()
        return loss.item()

    return step


def deepspeed(stage, nvme=None):
    return lambda load, weights, tuned, precision: deepspeed_step(
        deepspeed_engine(load, weights, stage, tuned, precision, nvme=nvme))


def deepspeed_muon(load, weights, tuned, precision):
    """Stage 1, with the iterations that torch.optim.Muon and Zeroth have. Its learning-rate factor is that of
    adjust_lr_fn `original`, so its losses differ."""
    import deepspeed

    model = empty_model(load)
    materialise(model, weights)
    for name, parameter in model.named_parameters():
        parameter.use_muon = is_hidden_matrix(name, parameter)
    params = {"lr": MUON["lr"], "weight_decay": MUON["weight_decay"], "momentum": MUON["momentum"], "ns_method": "standard"}
    config = deepspeed_config(load, 1, tuned, precision) | {"optimizer": {"type": "Muon", "params": params}}
    config["zero_optimization"]["reduce_scatter"] = False  # its Muon requires that
    engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
    if precision == "bf16":
        set_masters(engine.module, weights)
    return deepspeed_step(engine)


MAKERS = {"ddp": ddp, "fsdp2": fsdp2, "deepspeed1": deepspeed(1), "deepspeed2": deepspeed(2), "deepspeed3": deepspeed(3),
          "ddp_muon": ddp_muon, "deepspeed_muon": deepspeed_muon}


@contextlib.contextmanager
def process_group(peer):
    """Joins the ranks over gloo, with sockets connected."""
    dist.init_process_group("gloo")
    if peer.startswith("deepspeed"):
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    dist.barrier()
    try:
        yield
    finally:
        dist.destroy_process_group()
