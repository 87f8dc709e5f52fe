#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints every key that an installed DeepSpeed reads, with its default, as JSON lines: {"key": ..., "default": ...}.

    python3 -m venv /tmp/deepspeed && /tmp/deepspeed/bin/pip install deepspeed==0.19.8 torch
    /tmp/deepspeed/bin/python scripts/deepspeed_keys.py > tests/config/deepspeed_keys.jsonl

Keys of sections that are pydantic models come from the models' fields; the others from the constants, functions and
signatures that DeepSpeed reads them with. "default" is left out if there is none or if it is not a JSON value. A key
that DeepSpeed rejects as removed is {"key": ..., "removed": true}. tests/config/test_deepspeed_keys.cpp compares
Zeroth's tables with the result.
"""
import enum
import inspect
import json
import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402
import pydantic  # noqa: E402
from deepspeed.comm.config import CommsLoggerConfig  # noqa: E402
from deepspeed.compile.config import CompileConfig  # noqa: E402
from deepspeed.inference.config import WeightQuantConfig  # noqa: E402
from deepspeed.monitor.config import CometConfig, CSVConfig, TensorBoardConfig, WandbConfig  # noqa: E402
from deepspeed.profiling.config import DeepSpeedFlopsProfilerConfig  # noqa: E402
from deepspeed.runtime import config as ds_config  # noqa: E402
from deepspeed.runtime import constants, lr_schedules  # noqa: E402
from deepspeed.runtime.activation_checkpointing.config import ACT_CHKPT_DEFAULT  # noqa: E402
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config  # noqa: E402
from deepspeed.runtime.swap_tensor.aio_config import AIO_DEFAULT_DICT  # noqa: E402
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig  # noqa: E402
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig  # noqa: E402
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig  # noqa: E402
from deepspeed.runtime.zero.offload_config import (  # noqa: E402
    DeepSpeedZeroOffloadOptimizerConfig,
    DeepSpeedZeroOffloadParamConfig,
)
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig  # noqa: E402

NOTHING = object()

MODELS = {
    "zero_optimization": DeepSpeedZeroConfig,
    "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
    "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
    "zero_optimization.leaf_module": DeepSpeedZeroLeafModuleConfig,
    "fp16": DeepSpeedFP16Config,
    "bf16": DeepSpeedBF16Config,
    "tensorboard": TensorBoardConfig,
    "csv_monitor": CSVConfig,
    "wandb": WandbConfig,
    "comet": CometConfig,
    "comms_logger": CommsLoggerConfig,
    "timers.throughput": DeepSpeedThroughputTimerConfig,
    "compile": CompileConfig,
    "hybrid_engine": ds_config.HybridEngineConfig,
    "tensor_parallel": TPTrainingConfig,
    "weight_quantization": WeightQuantConfig,
}

# Objects in a file: the models above read their keys, or DeepSpeed reads them as a whole.
SECTIONS = {*MODELS, "zero_optimization.zenflow", "tensor_parallel.tensor_parallel", "tensor_parallel.tp"}
PYTHON_ONLY = {"tensor_parallel.injection_policy_tuple"}  # cannot be written in JSON


def json_of(value):
    """The value in JSON, or NOTHING."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = int(value)  # DeepSpeed's own class of printable integers
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return NOTHING


def of_model(section, model):
    for name, field in model.model_fields.items():
        default = NOTHING if field.is_required() else json_of(field.get_default(call_default_factory=True))
        for spelling in {name, field.alias or name}:
            key = f"{section}.{spelling}"
            if key not in SECTIONS and key not in PYTHON_ONLY:
                yield key, default


def of_parameters(prefix, function, without=()):
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in ("self", "optimizer", "params", *without) and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            default = NOTHING if parameter.default is parameter.empty else json_of(parameter.default)
            yield f"{prefix}.{name}", default


# Top-level keys that the getters of runtime/config.py read, by the names of their constants.
TOP_LEVEL = (
    "TRAIN_BATCH_SIZE TRAIN_MICRO_BATCH_SIZE_PER_GPU GRADIENT_ACCUMULATION_STEPS MANAGED_GRADIENT_ACCUMULATION "
    "STEPS_PER_PRINT DUMP_STATE DISABLE_PYTHON_GC DISABLE_ALLGATHER COMMUNICATION_DATA_TYPE "
    "SEQ_PARALLEL_COMMUNICATION_DATA_TYPE PRESCALE_GRADIENTS GRADIENT_PREDIVIDE_FACTOR GRADIENT_ALLREDUCE_OP "
    "GRADIENT_CLIPPING ZERO_ALLOW_UNTESTED_OPTIMIZER ZERO_FORCE_DS_CPU_OPTIMIZER WALL_CLOCK_BREAKDOWN "
    "MEMORY_BREAKDOWN USE_DATA_BEFORE_EXPERT_PARALLEL DATALOADER_DROP_LAST LOG_LEVEL VOCABULARY_SIZE"
).split()
DATA_TYPES = "GRAD_ACCUM_DTYPE PARAM_DTYPE BUFFER_DTYPE KEEP_IN_FP32_MODULES".split()
CHECKPOINT = {
    "tag_validation": "Warn",
    "load_universal": constants.LOAD_UNIVERSAL_CHECKPOINT_DEFAULT,
    "use_node_local_storage": constants.USE_NODE_LOCAL_STORAGE_CHECKPOINT_DEFAULT,
    "parallel_write": {"pipeline_stage": constants.CHECKPOINT_PARALLEL_WRITE_PIPELINE_STAGE_DEFAULT},
    "checkpoint_serialization": True,
    "writer": None,
}
ADAM = {  # FusedAdam's parameters: importing it builds kernels. runtime/engine.py adds the last two
    "lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "bias_correction": True, "amsgrad": False,
    "set_grad_none": True, "torch_adam": False, "adam_w_mode": True,
}  # fmt: skip
WHOLE = {
    "sequence_parallel_size": 1, "torch_autocast": {"enabled": False}, "aio": json_of(AIO_DEFAULT_DICT),
    "pipeline": ds_config.get_pipeline_config({}), "autotuning": {"enabled": False},
    "data_efficiency": {"enabled": False}, "expert_parallel": {"enabled": False}, "datastates_ckpt": False,
    "zero_optimization.zenflow": None, "optimizer.legacy_fusion": False,
}  # fmt: skip
SCHEDULERS = [lr_schedules.WarmupLR, lr_schedules.WarmupDecayLR, lr_schedules.WarmupCosineLR,
              lr_schedules.OneCycle, lr_schedules.LRRangeTest]  # fmt: skip


def constant(name):
    return getattr(constants, name), json_of(getattr(constants, name + "_DEFAULT", None))


def keys():
    for name in TOP_LEVEL:
        yield constant(name)
    for section, model in MODELS.items():
        yield from of_model(section, model)
    for name in DATA_TYPES:
        key, default = constant(name)
        yield f"data_types.{key}", default
    flops = vars(DeepSpeedFlopsProfilerConfig({}))
    for section, members in {
        "activation_checkpointing": ACT_CHKPT_DEFAULT, "checkpoint": CHECKPOINT, "flops_profiler": flops,
        "optimizer.params": ADAM,
    }.items():  # fmt: skip
        for name, default in members.items():
            yield f"{section}.{name}", json_of(default)
    yield from ((key, json_of(default)) for key, default in WHOLE.items())
    for scheduler in SCHEDULERS:
        for key, default in of_parameters("scheduler.params", scheduler.__init__):
            yield key, NOTHING if default is None or "warmup_max_lr" in key else default


def main():
    print(f"DeepSpeed {deepspeed.__version__}, pydantic {pydantic.VERSION}", file=sys.stderr)
    lines = {}
    for key, default in keys():
        lines.setdefault(key, {"key": key} if default is NOTHING else {"key": key, "default": default})
    for key in ds_config._REMOVED_TOP_LEVEL_CONFIG_KEYS:
        lines[key] = {"key": key, "removed": True}
    for key in ds_config._REMOVED_ZERO_CONFIG_KEYS:
        lines[f"zero_optimization.{key}"] = {"key": f"zero_optimization.{key}", "removed": True}
    for line in lines.values():
        print(json.dumps(line))
    print(f"{len(lines)} keys", file=sys.stderr)


if __name__ == "__main__":
    main()
