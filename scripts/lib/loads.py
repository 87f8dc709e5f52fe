# SPDX-License-Identifier: Apache-2.0
"""What is trained, in words."""


def description(name, record):
    """Of a record that tells a GPT's shape and batch."""
    layers, channels, batch, context = (record.count(key, 1) for key in ("layers", "channels", "micro_batch", "context"))
    return f"{name}: {layers} layers, {channels} channels, micro-batch {batch}, context {context}"
