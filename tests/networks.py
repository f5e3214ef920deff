"""Small networks of PyTorch, each with what people put on microcontrollers, for the exporters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name


class Mobile(nn.Module):
    """An inverted residual block with Relu6."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, 2, 1)
        self.wide = nn.Conv2d(4, 8, 1)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.narrow = nn.Conv2d(8, 4, 1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x + self.narrow(F.relu6(self.depth(F.relu6(self.wide(x)))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Excite(nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.a = nn.Linear(4, 2)
        self.b = nn.Linear(2, 4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.first(x))
        gate = torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))
        return self.fc((x * gate[:, :, None, None]).amax((2, 3)))


class Attention(nn.Module):
    """Two heads by hand, a residual, LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 3)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [f(x).view(x.size(0), 4, 2, 3).transpose(1, 2) for f in (self.q, self.k, self.v)]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / 3**0.5, -1) @ v

    def forward(self, x: Tensor) -> Tensor:
        a = self.attend(*self.heads(x)).transpose(1, 2).reshape(x.size(0), 4, 6)
        return self.fc(self.norm(x + a).mean(1))


class Scaled(Attention):
    """The same by PyTorch's own operator."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class Line(nn.Module):
    """Convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(3, 4, 3, padding=1)
        self.b = nn.Conv1d(4, 5, 3, stride=2)
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool1d(F.leaky_relu(self.a(x), 0.2), 2)
        return self.fc(F.gelu(self.b(x)).mean(2))


class Auto(nn.Module):
    """An autoencoder with a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 3, 3, 2, 1)
        self.up = nn.ConvTranspose2d(3, 1, 3, 2, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(F.elu(self.down(x)))


class Unet(nn.Module):
    """A skip connection around pooling and upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 3, 3, padding=1)
        self.mid = nn.Conv2d(3, 3, 3, padding=1)
        self.out = nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        e = F.relu(self.down(x))
        u = F.relu(self.mid(F.max_pool2d(e, 2)))
        return self.out(torch.cat([e, F.interpolate(u, scale_factor=2.0, mode="nearest")], 1))


class Recurrent(nn.Module):
    """The last step of an LSTM or GRU."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell = kind(3, 5, batch_first=True)
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.cell(x)[0][:, -1])


class Norms(nn.Module):
    """Group and instance normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm2d(4, affine=True)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.group(self.first(x)))
        return self.fc(self.instance(x).square().mean((2, 3)))


class Encoder(nn.Module):
    """A layer of PyTorch's transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.0)
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer(x).mean(1))


class Odd(nn.Module):
    """Uneven windows, PRelu, a parameter of its own, chunks, clamps."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.PReLU(3)
        self.first = nn.Conv2d(2, 3, (3, 2), padding=(1, 0), dilation=(1, 2))
        self.scale = nn.Parameter(torch.randn(3, 1, 1))
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.slope(self.first(F.pad(x, (1, 1, 0, 0)))) * self.scale
        a, b = x.chunk(2, 2)
        return self.fc((a + torch.clamp(b, -1, 1)).flatten(2).mean(2))


class Standardized(nn.Module):
    """A convolution whose kernels have mean 0 and deviation 1, times a learned gain."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.gain = nn.Parameter(torch.randn(4, 1, 1, 1))
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        w = self.first.weight
        apart = w - w.mean((1, 2, 3), keepdim=True)
        w = self.gain * apart / torch.sqrt((apart * apart).mean((1, 2, 3), keepdim=True) + 1e-5)
        return self.fc(F.relu(F.conv2d(x, w, self.first.bias, padding=1)).mean((2, 3)))


class WeightNorm(nn.Module):
    """A layer whose rows are directions times lengths, one whose weights are the positive part."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(5, 6))
        self.raw = nn.Parameter(torch.randn(3, 6))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.first(x)), F.softplus(self.raw))


class Started(nn.Module):
    """An LSTM that learns its first state: its first, that of two, turned by a Tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(3, 5, batch_first=True)
        self.h0 = nn.Parameter(torch.randn(1, 1, 5))
        self.c0 = nn.Parameter(torch.randn(2, 1, 5))
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, c = (s.expand(1, x.size(0), 5).contiguous() for s in (torch.tanh(self.h0), self.c0[1:]))
        return self.fc(self.cell(x, (h, c))[0][:, -1])


#: name -> how to make it, shape of a sample
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "attention": (Attention, (4, 6)),
    "auto": (Auto, (1, 6, 6)),
    "encoder": (Encoder, (4, 6)),
    "excite": (Excite, (2, 5, 5)),
    "gru": (lambda: Recurrent(nn.GRU), (4, 3)),
    "line": (Line, (3, 12)),
    "lstm": (lambda: Recurrent(nn.LSTM), (4, 3)),
    "mobile": (Mobile, (2, 6, 6)),
    "norms": (Norms, (2, 4, 4)),
    "odd": (Odd, (2, 4, 4)),
    "scaled": (Scaled, (4, 6)),
    "unet": (Unet, (2, 4, 4)),
}


#: those that compute weights from what is trained
COMPUTED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "standardized": (Standardized, (2, 4, 4)),
    "started": (Started, (4, 3)),
    "weight_norm": (WeightNorm, (5,)),
}


def network(name: str) -> nn.Module:
    """The network in evaluation mode; no two of its numbers are equal.

    Exporters merge tensors of equal start values, and then train them as one.
    """
    torch.manual_seed(1)
    made = (NETWORKS | COMPUTED)[name][0]().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made
