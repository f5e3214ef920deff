"""The zoo's networks for sequences: transformers, an LSTM, a GRU.

``width`` is a factor of all sizes that are not given by the data.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from zoo_parts import wide

READINGS, CHANNELS = 32, 9
WORDS, SENTENCE = 1000, 16


class Encoder(nn.Module):
    """A projection, two blocks of PyTorch's own encoder layer, the mean over time, 6 classes."""

    def __init__(self, width: float) -> None:
        super().__init__()
        size = 4 * wide(8, width)
        self.project = nn.Linear(CHANNELS, size)
        self.position = nn.Parameter(0.1 * torch.randn(1, READINGS, size))
        # Layers by themselves: nn.TransformerEncoder would start both with the same weights.
        self.blocks = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(size, 4, 2 * size, 0.0, "gelu", batch_first=True)
                for _ in range(2)
            )
        )
        self.head = nn.Linear(size, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.project(x) + self.position)
        return self.head(x.mean(1))


class BertLayer(nn.Module):
    """One block of BERT, written as its reference implementation: separate query, key, value."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.output = nn.Linear(size, size)
        self.norm1 = nn.LayerNorm(size, 1e-12)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)
        self.norm2 = nn.LayerNorm(size, 1e-12)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[N, T, size] -> [N, heads, T, size / heads]."""
        n, t, size = x.shape
        return x.view(n, t, self.heads, size // self.heads).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        mixed = (torch.softmax(scores, -1) @ v).permute(0, 2, 1, 3).contiguous()
        x = self.norm1(x + self.output(mixed.view(x.shape)))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT-tiny: words, positions and a segment are embedded, two layers of 128, two classes.

    The vocabulary is 1000 words, not BERT's 30,522, of which 97 % of the bytes would be a table
    that no microcontroller holds. No mask: sentences fill their 16 words.
    """

    def __init__(self, width: float) -> None:
        super().__init__()
        size = 2 * wide(64, width)
        self.words = nn.Embedding(WORDS, size)
        self.positions = nn.Embedding(SENTENCE, size)
        self.segments = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.layers = nn.Sequential(BertLayer(size, 2), BertLayer(size, 2))
        self.pooler = nn.Linear(size, size)
        self.head = nn.Linear(size, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1])
        x = self.words(words) + self.positions(places) + self.segments(torch.zeros_like(words))
        x = self.layers(self.norm(x))
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Recurrent(nn.Module):
    """A recurrent layer over 32 readings of 9 channels; its last state gives 6 classes."""

    def __init__(self, cell: type[nn.LSTM | nn.GRU], width: float) -> None:
        super().__init__()
        size = wide(32, width)
        self.cell = cell(CHANNELS, size, batch_first=True)
        self.head = nn.Linear(size, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x)[0][:, -1])


def lstm(width: float) -> nn.Module:
    """``Recurrent`` with an LSTM of 32."""
    return Recurrent(nn.LSTM, width)


def gru(width: float) -> nn.Module:
    """``Recurrent`` with a GRU of 32."""
    return Recurrent(nn.GRU, width)
