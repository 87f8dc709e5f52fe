# SPDX-License-Identifier: Apache-2.0
"""train_gpt's model and batches in plain PyTorch: GPT-2 with pre-LayerNorm, learned positions, tanh GELU and biases, the
token embedding also being the head, no dropout; a byte is a token."""

import pathlib

import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional

from loads import VOCABULARY


class Attention(nn.Module):
    """Attention over the heads that c_attn computes: all, or this rank's if tensor ranks divide it."""

    def __init__(self, load):
        super().__init__()
        self.width = load.channels // load.heads
        self.c_attn = nn.Linear(load.channels, 3 * load.channels)
        self.c_proj = nn.Linear(load.channels, load.channels)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (-1, self.width)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, load):
        super().__init__()
        self.c_fc = nn.Linear(load.channels, 4 * load.channels)
        self.c_proj = nn.Linear(4 * load.channels, load.channels)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, load):
        super().__init__()
        self.ln_1 = nn.LayerNorm(load.channels)
        self.attn = Attention(load)
        self.ln_2 = nn.LayerNorm(load.channels)
        self.mlp = Mlp(load)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """`forward` gives the mean loss of a batch. The embeddings are the root's own parameters, so that frameworks that
    shard by module hold them from their first use to their second, as Zeroth's tied unit is held."""

    def __init__(self, load):
        super().__init__()
        self.wte = nn.Parameter(torch.empty(VOCABULARY, load.channels))
        self.wpe = nn.Parameter(torch.empty(load.context, load.channels))
        self.h = nn.ModuleList(Block(load) for _ in range(load.layers))
        self.ln_f = nn.LayerNorm(load.channels)

    def forward(self, inputs, targets):
        x = self.layers(functional.embedding(inputs, self.wte) + self.wpe)
        logits = functional.linear(x, self.wte).float()  # a loss in bf16 has only three digits
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def layers(self, x):
        """Runs the layers between the embeddings and the head."""
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class SavedWeights:
    """The weights in a folder that train_gpt saved, by the names of Gpt's parameters. The file is mapped, and read on
    request."""

    def __init__(self, folder):
        self.file = safe_open(pathlib.Path(folder) / "model.safetensors", framework="pt")

    def __getitem__(self, name):
        saved = f"transformer.{name}" + (".weight" if name in ("wte", "wpe") else "")
        saved = name if name == "lm_head.weight" else saved
        tensor = self.file.get_tensor(saved)
        is_matrix_of_linear = tensor.dim() == 2 and name.startswith("h.")  # GPT-2 stores them as [in, out]
        return tensor.t() if is_matrix_of_linear else tensor


class ConstantWeights:
    """Constant weights, for a model that need not learn."""

    def __getitem__(self, name):
        return torch.tensor(0.01)


class Batches:
    """Sequences in sequential order: sequence i is bytes [i*context, i*context + context]; its last byte is only a
    target."""

    def __init__(self, path, load):
        self.load = load
        self.data = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8)
        self.sequences = (len(self.data) - 1) // load.context
        if self.sequences < 1:
            raise ValueError(f"{path}: {len(self.data)} bytes are less than one sequence of {load.context} and a target")

    def of_step(self, step, rank, world):
        """Inputs and targets of `rank` in `step`, both counted from 0."""
        micro, context = self.load.micro_batch, self.load.context
        first = (step * world + rank) * micro
        starts = [(first + row) % self.sequences * context for row in range(micro)]
        rows = torch.stack([self.data[start:start + context + 1] for start in starts]).long()
        return rows[:, :-1], rows[:, 1:]
