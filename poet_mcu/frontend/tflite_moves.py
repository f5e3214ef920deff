"""One rule for each operator of TensorFlow Lite that moves elements or computes shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from poet_mcu.errors import ModelError
from poet_mcu.frontend.tflite_file import LiteOp
from poet_mcu.frontend.tflite_graph import TO_THE_END, Lite

Rule = Callable[[Lite, LiteOp], None]


def reshape(lite: Lite, op: LiteOp) -> None:
    """To the output's shape in the file, or to one that the model computes."""
    given = op.inputs[1] if len(op.inputs) > 1 else -1
    if given >= 0 and lite.data(given) is None:
        output = lite.name(op.outputs[0])
        lite.add("Reshape", [lite.operand(op.inputs[0]), lite.name(given)], output, output)
        return
    shape = lite.shape(op.inputs[0])
    lite.reshape(op, lite.operand(op.inputs[0]), rows=bool(shape) and shape[0] == 1)


def concat(lite: Lite, op: LiteOp) -> None:
    """Along one axis."""
    axis = op.options["Axis"] % max(len(lite.shape(op.outputs[0])), 1)
    floats = lite.file.tensors[op.outputs[0]].is_float
    lite.apart(axis != 0 or not floats, op)
    lite.result(op, "Concat", [lite.operand(i) for i in op.inputs], axis=axis)


def transpose(lite: Lite, op: LiteOp) -> None:
    """Axes in a stored order."""
    perm = lite.ints(op.inputs[1], "the order of axes")
    lite.apart(bool(perm) and perm[0] == 0, op)
    lite.result(op, "Transpose", [lite.operand(op.inputs[0])], perm=perm)


def pad(lite: Lite, op: LiteOp) -> None:
    """With zeros, or with a stored number."""
    pairs = lite.ints(op.inputs[1], "the pads")
    before, after = pairs[::2], pairs[1::2]
    lite.apart(before[:1] == after[:1] == [0], op)
    inputs = [
        lite.operand(op.inputs[0]),
        lite.number([*before, *after], lite.name(op.outputs[0])),
    ]
    if len(op.inputs) > 2:
        value = lite.data(op.inputs[2])
        if value is None or value.size != 1:
            raise ModelError("expected one stored number to pad with; convert again")
        inputs.append(lite.number(float(value.ravel()[0]), lite.name(op.outputs[0])))
    lite.result(op, "Pad", inputs)


def slice_part(lite: Lite, op: LiteOp) -> None:
    """SLICE: begin and size; -1 is all that is left."""
    begin, size = lite.ints(op.inputs[1], "the begin"), lite.ints(op.inputs[2], "the size")
    ends = [b + s if s >= 0 else TO_THE_END for b, s in zip(begin, size, strict=True)]
    _slice(lite, op, begin, ends, [1] * len(begin), [])


def strided_slice(lite: Lite, op: LiteOp) -> None:
    """STRIDED_SLICE without new axes; a bit of a mask stands for an axis."""
    masks = op.options
    if masks["EllipsisMask"] or masks["NewAxisMask"] or masks["Offset"]:
        raise ModelError("expected a slice without ellipsis, new axes and offsets; convert again")
    begin, end, steps = (lite.ints(i, "the slice") for i in op.inputs[1:4])
    gone = [i for i in range(len(begin)) if masks["ShrinkAxisMask"] >> i & 1]
    for i, step in enumerate(steps):
        if masks["BeginMask"] >> i & 1:
            begin[i] = 0 if step > 0 else -1
        if masks["EndMask"] >> i & 1:
            end[i] = TO_THE_END if step > 0 else -TO_THE_END
        if i in gone:
            end[i] = begin[i] + 1 if begin[i] != -1 else TO_THE_END
    _slice(lite, op, begin, end, steps, gone)


def _slice(
    lite: Lite, op: LiteOp, begin: list[int], end: list[int], steps: list[int], gone: list[int]
) -> None:
    x = lite.operand(op.inputs[0])
    if lite.file.tensors[op.inputs[0]].is_float and begin:
        all_samples = begin[0] == 0 and end[0] >= 1 and steps[0] == 1 and 0 not in gone
        lite.apart(all_samples, op)
        if lite.free and all_samples:
            end = [TO_THE_END, *end[1:]]
    like = lite.name(op.outputs[0])
    numbers = [lite.number(row, like) for row in (begin, end, [*range(len(begin))], steps)]
    if not gone:
        lite.result(op, "Slice", [x, *numbers])
        return
    part = lite.add("Slice", [x, *numbers], like)
    lite.result(op, "Squeeze", [part, lite.number(gone, like)])


def split(lite: Lite, op: LiteOp) -> None:
    """SPLIT (axis, x) into equal parts and SPLIT_V (x, sizes, axis)."""
    by_sizes = op.name == "SPLIT_V"
    x, place = (op.inputs[0], op.inputs[2]) if by_sizes else (op.inputs[1], op.inputs[0])
    (axis,) = lite.ints(place, "the axis")
    axis %= max(len(lite.shape(x)), 1)
    lite.apart(axis != 0, op)
    sizes = [lite.shape(i)[axis] for i in op.outputs]
    outputs = [lite.name(i) for i in op.outputs]
    lite.split(lite.operand(x), outputs, sizes, axis)


def unpack(lite: Lite, op: LiteOp) -> None:
    """Parts of one along an axis, which goes."""
    axis = op.options["Axis"] % max(len(lite.shape(op.inputs[0])), 1)
    lite.apart(axis != 0, op)
    parts = [lite.fresh(f"{lite.name(i)}/part") for i in op.outputs]
    lite.split(lite.operand(op.inputs[0]), parts, [1] * len(parts), axis)
    for index, part in zip(op.outputs, parts, strict=True):
        name = lite.name(index)
        lite.add("Squeeze", [part, lite.number([axis], name)], name, name)


def pack(lite: Lite, op: LiteOp) -> None:
    """Operands side by side along a new axis."""
    axis = op.options["Axis"] % max(len(lite.shape(op.outputs[0])), 1)
    lite.apart(axis != 0 or not lite.file.tensors[op.outputs[0]].is_float, op)
    like = lite.name(op.outputs[0])
    parts = [
        lite.add("Unsqueeze", [lite.operand(i), lite.number([axis], like)], like) for i in op.inputs
    ]
    lite.result(op, "Concat", parts, axis=axis)


def gather(lite: Lite, op: LiteOp) -> None:
    """Rows by number along an axis."""
    if op.options["BatchDims"]:
        raise ModelError(f"expected batch_dims 0, got {op.options['BatchDims']}; convert again")
    rows = len(lite.shape(op.inputs[0]))
    axis = op.options["Axis"] % max(rows, 1)
    # From a stored table every number takes its row: samples stay apart, as they came.
    table = lite.data(op.inputs[0]) is not None
    lite.apart(table or axis != 0, op)
    lite.result(op, "Gather", [lite.operand(i) for i in op.inputs], axis=axis)


def embedding(lite: Lite, op: LiteOp) -> None:
    """EMBEDDING_LOOKUP (numbers, table)."""
    lite.result(op, "Gather", [lite.operand(op.inputs[1]), lite.operand(op.inputs[0])], axis=0)


def tile(lite: Lite, op: LiteOp) -> None:
    """Each axis repeated."""
    counts = lite.ints(op.inputs[1], "the repeats")
    lite.apart(counts[:1] == [1], op)
    inputs = [lite.operand(op.inputs[0]), lite.number(counts, lite.name(op.outputs[0]))]
    lite.result(op, "Tile", inputs)


def broadcast_to(lite: Lite, op: LiteOp) -> None:
    """To the output's shape."""
    shape = list(lite.shape(op.outputs[0]))
    lite.apart(bool(shape) and shape[0] == 1, op)
    inputs = [lite.operand(op.inputs[0]), lite.number(shape, lite.name(op.outputs[0]))]
    lite.result(op, "Expand", inputs)


def blocks(lite: Lite, op: LiteOp) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH."""
    kind = "DepthToSpace" if op.name == "DEPTH_TO_SPACE" else "SpaceToDepth"
    x = lite.channels_first(op.inputs[0])
    y = lite.add(kind, [x], lite.name(op.outputs[0]), blocksize=op.options["BlockSize"])
    lite.channels_last(op, y)


def shape_of(lite: Lite, op: LiteOp) -> None:
    """The dimensions, as int64."""
    lite.result(op, "Shape", [lite.operand(op.inputs[0])])


def cast(lite: Lite, op: LiteOp) -> None:
    """Between integers, or between real numbers: nothing changes."""
    source, target = (lite.file.tensors[i] for i in (op.inputs[0], op.outputs[0]))
    if source.is_float != target.is_float or "BOOL" in (source.stored, target.stored):
        raise ModelError(
            f"expected a cast between real numbers or between integers, got {source.stored} to "
            f"{target.stored}; replace it before conversion"
        )
    lite.result(op, "Identity", [lite.operand(op.inputs[0])])


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "BROADCAST_TO": broadcast_to,
        "CAST": cast,
        "CONCATENATION": concat,
        "DEPTH_TO_SPACE": blocks,
        "EMBEDDING_LOOKUP": embedding,
        "EXPAND_DIMS": reshape,
        "GATHER": gather,
        "PACK": pack,
        "PAD": pad,
        "PADV2": pad,
        "RESHAPE": reshape,
        "SHAPE": shape_of,
        "SLICE": slice_part,
        "SPACE_TO_DEPTH": blocks,
        "SPLIT": split,
        "SPLIT_V": split,
        "SQUEEZE": reshape,
        "STRIDED_SLICE": strided_slice,
        "TILE": tile,
        "TRANSPOSE": transpose,
        "UNPACK": unpack,
    }
)
