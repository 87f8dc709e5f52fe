# SPDX-License-Identifier: Apache-2.0
"""Descriptions of loads, which are the models that benchmarks train."""


def description(name, record):
    """Describes a load, from a record of a GPT's shape and batch."""
    layers, channels, batch, context = (record.count(key, 1) for key in ("layers", "channels", "micro_batch", "context"))
    return f"{name}: {layers} layers, {channels} channels, micro-batch {batch}, context {context}"
