"""Operators that move elements: Concat, Split, Slice, Expand, DepthToSpace and Transpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, Tensor, attribute
from poet_mcu.ir.graph import Attr, Value
from poet_mcu.ops.concat import MOST


def axis_in(axis: int, rank: int) -> int:
    """The axis counted from the front; raises ModelError outside -rank..rank-1."""
    if not -rank <= axis < rank:
        raise ModelError(f"expected axis in {-rank}..{rank - 1}, got {axis}; export again")
    return axis % rank


def lower_concat(ctx: Context, node: onnx.NodeProto) -> None:
    """Concat of activations and weights; more than four inputs in groups of four."""
    parts = [ctx.operand(name) for name in node.input if not is_empty(ctx, name)]
    if not parts:
        raise ModelError("expected an input with elements, got none; remove the node")
    attrs = {"axis": axis_in(attribute(node, "axis", 1), len(parts[0].shape))}
    if len(parts) == 1:
        ctx.env[node.output[0]] = Active(parts[0])
        return
    while len(parts) > MOST:
        groups = [parts[i : i + MOST] for i in range(0, len(parts), MOST)]
        name = f"{node.output[0]}_part"
        parts = [
            group[0]
            if len(group) == 1
            else ctx.builder.emit("concat", group, attrs, name, node.name or name)[0]
            for group in groups
        ]
    ctx.emit(node, "concat", parts, attrs)


def is_empty(ctx: Context, name: str) -> bool:
    """Whether ``name`` has no elements: what exporters write as the rest of a whole."""
    found = ctx.entry(name)
    return isinstance(found, Tensor) and not found.array.size


def _empty(shape: tuple[int, ...], sizes: Mapping[int, int]) -> Tensor:
    """A tensor of no elements: ``shape`` but for the axes of ``sizes``."""
    return Tensor(np.zeros([sizes.get(i, size) for i, size in enumerate(shape)], np.float32))


def lower_split(ctx: Context, node: onnx.NodeProto) -> None:
    """Split into a slice for each output; sizes are an attribute before opset 13, then an input."""
    x = ctx.activation(node.input[0])
    axis = axis_in(attribute(node, "axis", 0), len(x.shape))
    total = x.shape[axis]
    sizes: Sequence[int] = attribute(node, "split", ())
    if len(node.input) > 1 and node.input[1]:
        sizes = ctx.ints(node.input[1], "the sizes")
    elif not sizes:
        count = len(node.output)
        if attribute(node, "num_outputs", count) != count:
            raise ModelError(
                f"expected num_outputs to be the number of outputs, {count}, got "
                f"{attribute(node, 'num_outputs', count)}; export again"
            )
        chunk = -(-total // count)  # the last may be smaller since opset 18
        sizes = [min(chunk, total - i * chunk) for i in range(count)]
    if sum(sizes) != total or min(sizes) < 0 or len(sizes) < len(node.output):
        raise ModelError(
            f"expected {len(node.output)} sizes that add up to {total}, got {list(sizes)}; "
            "export again"
        )
    start = 0
    for name, size in zip(node.output, sizes, strict=False):
        if not size:
            ctx.env[name] = _empty(x.shape, {axis: 0})
        elif name and (ctx.consumers.get(name) or name in ctx.outputs):
            ranges = [(0, dim, 1) for dim in x.shape]
            ranges[axis] = (start, size, 1)
            ctx.env[name] = Active(cut(ctx, node, x, ranges, name))
        start += size


def cut(
    ctx: Context,
    node: onnx.NodeProto,
    x: Value,
    ranges: Sequence[tuple[int, int, int]],
    name: str,
) -> Value:
    """The slice of x by (start, size, step) of each axis; x itself when that is all of it."""
    if all(item == (0, dim, 1) for item, dim in zip(ranges, x.shape, strict=True)):
        return x
    starts, sizes, steps = (tuple(item[i] for item in ranges) for i in range(3))
    attrs: dict[str, Attr] = {"starts": starts, "sizes": sizes, "steps": steps}
    return ctx.builder.emit("slice", (x,), attrs, name, node.name or name)[0]


def lower_slice(ctx: Context, node: onnx.NodeProto) -> None:
    """Slice; starts, ends and axes are attributes before opset 10, then inputs."""
    x = ctx.activation(node.input[0])
    starts, ends, axes, steps = _slice_ints(ctx, node)
    axes = axes or tuple(range(len(starts)))
    steps = steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ModelError(
            f"expected a start, an end and a step other than 0 for each of the axes {list(axes)}, "
            f"got {list(starts)}, {list(ends)} and {list(steps)}; export again"
        )
    ranges = [(0, dim, 1) for dim in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = axis_in(axis, len(x.shape))
        found = range(*slice(start, end, step).indices(x.shape[place]))
        ranges[place] = (found[0] if found else 0, len(found), step if len(found) > 1 else 1)
    if any(size == 0 for _, size, _ in ranges):
        ctx.env[node.output[0]] = Tensor(np.zeros([size for _, size, _ in ranges], np.float32))
        return
    ctx.env[node.output[0]] = Active(cut(ctx, node, x, ranges, node.output[0]))


def _slice_ints(ctx: Context, node: onnx.NodeProto) -> tuple[tuple[int, ...], ...]:
    """starts, ends, axes and steps, the last two empty where they are not given."""
    if ctx.opset < 10:
        found = [tuple(attribute(node, name, ())) for name in ("starts", "ends", "axes")]
    else:
        parts = zip(node.input[1:], ("starts", "ends", "axes", "steps"), strict=False)
        found = [ctx.ints(name, what) if name else () for name, what in parts]
    return (*found, *((),) * (4 - len(found)))


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape; raises ModelError where there is none."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    shape = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            raise ModelError(
                f"expected shapes that broadcast, got {list(a)} and {list(b)}; export again"
            )
        shape.append(y if x == 1 else x)
    return tuple(shape)


def expanded(ctx: Context, node: onnx.NodeProto, x: Value, shape: tuple[int, ...]) -> Value:
    """x repeated to ``shape``, to which it broadcasts; a view where nothing is repeated."""
    name = f"{node.output[0]}_expanded"
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    view = ctx.builder.view(x, padded, f"{name}_view")
    if padded == shape:
        return view
    return ctx.builder.emit("expand", (view,), {"shape": shape}, name, node.name or name)[0]


def lower_tile(ctx: Context, node: onnx.NodeProto) -> None:
    """Tile: a new axis beside each that is repeated, expanded, and run together with it."""
    x = ctx.activation(node.input[0])
    repeats = ctx.ints(node.input[1], "the repeats")
    if len(repeats) != len(x.shape) or min(repeats, default=1) < 1:
        raise ModelError(
            f"expected a repeat of 1 or more for each of {list(x.shape)}, got {list(repeats)}; "
            "export again"
        )
    apart: list[int] = []
    full: list[int] = []
    for size, count in zip(x.shape, repeats, strict=True):
        apart += [size] if 1 in (size, count) else [1, size]
        full += [size * count] if 1 in (size, count) else [count, size]
    view = ctx.builder.view(x, tuple(apart), f"{node.output[0]}_apart")
    wide = expanded(ctx, node, view, tuple(full))
    shape = tuple(size * count for size, count in zip(x.shape, repeats, strict=True))
    ctx.show(node, wide, shape)


def transposed(
    ctx: Context, node: onnx.NodeProto, x: Value, perm: Sequence[int], name: str = ""
) -> Value:
    """x with its axes in the order ``perm``; a view where no element moves."""
    shape = tuple(x.shape[axis] for axis in perm)
    moved = [axis for axis in perm if x.shape[axis] != 1]
    name = name or node.output[0]
    if moved == sorted(moved):
        return ctx.builder.view(x, shape, name)
    return ctx.builder.emit("transpose", (x,), {"perm": tuple(perm)}, name, node.name or name)[0]


def lower_depth_to_space(ctx: Context, node: onnx.NodeProto) -> None:
    """DepthToSpace: channels to blocks of pixels, as a transpose between two views."""
    x = ctx.activation(node.input[0])
    block = _block(node, x)
    n, c, h, w = x.shape
    if c % block**2:
        raise ModelError(f"expected channels divisible by {block**2}, got {c}; export again")
    mode = attribute(node, "mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise ModelError(f"expected mode DCR or CRD, got {mode}; export again")
    depth = c // block**2
    first = mode == "DCR"
    split = (n, block, block, depth, h, w) if first else (n, depth, block, block, h, w)
    perm = (0, 3, 4, 1, 5, 2) if first else (0, 1, 4, 2, 5, 3)
    _reorder(ctx, node, x, split, perm, (n, depth, h * block, w * block))


def lower_space_to_depth(ctx: Context, node: onnx.NodeProto) -> None:
    """SpaceToDepth: blocks of pixels to channels."""
    x = ctx.activation(node.input[0])
    block = _block(node, x)
    n, c, h, w = x.shape
    if h % block or w % block:
        raise ModelError(f"expected planes divisible by {block}, got {h} x {w}; export again")
    split = (n, c, h // block, block, w // block, block)
    shape = (n, c * block**2, h // block, w // block)
    _reorder(ctx, node, x, split, (0, 3, 5, 1, 2, 4), shape)


def _block(node: onnx.NodeProto, x: Value) -> int:
    block = attribute(node, "blocksize", 0)
    if len(x.shape) != 4 or block < 1:
        raise ModelError(
            f"expected blocksize of 1 or more on [N, C, H, W], got {block} on {list(x.shape)}"
        )
    return int(block)


def _reorder(
    ctx: Context,
    node: onnx.NodeProto,
    x: Value,
    split: tuple[int, ...],
    perm: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    """View as ``split``, transpose, view as ``shape``."""
    parts = ctx.builder.view(x, split, f"{node.output[0]}_blocks")
    moved = transposed(ctx, node, parts, perm)
    ctx.show(node, moved, shape)
