"""Einsum of one or two operands: sums, a transpose, one batched product, a transpose."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx

from poet_mcu.errors import ModelError
from poet_mcu.frontend.context import Active, Context, attribute
from poet_mcu.frontend.lower_elementwise import operand, part
from poet_mcu.frontend.lower_layout import transposed
from poet_mcu.ir.graph import Value


def lower_einsum(ctx: Context, node: onnx.NodeProto) -> None:
    """Einsum; every letter once in an operand, no ellipsis."""
    values = [operand(ctx, name) for name in node.input]
    terms, out = _parsed(node, len(values))
    sizes = _sizes(node, terms, values)
    name = node.output[0]
    reduced = []
    for i, (value, term) in enumerate(zip(values, terms, strict=True)):
        others = {letter for j, other in enumerate(terms) if j != i for letter in other}
        reduced.append(_summed(ctx, node, value, term, others | set(out), f"sum{i}"))
    if len(reduced) == 1:
        value, term = reduced[0]
    else:
        value, term = _product(ctx, node, (reduced[0], reduced[1]), out, sizes)
    perm = [term.index(letter) for letter in out]
    ctx.env[name] = Active(transposed(ctx, node, value, perm))


def _parsed(node: onnx.NodeProto, count: int) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    equation = attribute(node, "equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    used = "".join(terms)
    if not arrow:
        right = "".join(sorted(letter for letter in set(used) if used.count(letter) == 1))
    plain = all(term.isalpha() and len(set(term)) == len(term) for term in terms)
    known = set(right) <= set(used) and len(set(right)) == len(right)
    if count not in (1, 2) or len(terms) != count or not plain or not known:
        raise ModelError(
            "expected an equation of one or two operands with every letter once in each, got "
            f"'{equation}' for {count}; export as MatMul and Transpose"
        )
    return terms, right


def _sizes(node: onnx.NodeProto, terms: list[str], values: list[Value]) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        fits = len(term) == len(value.shape) and all(
            sizes.setdefault(letter, size) == size
            for letter, size in zip(term, value.shape, strict=True)
        )
        if not fits:
            raise ModelError(
                f"expected operands of the axes '{attribute(node, 'equation', '')}' says, with one "
                f"size a letter, got {[list(v.shape) for v in values]}; export again"
            )
    return sizes


def _summed(
    ctx: Context, node: onnx.NodeProto, value: Value, term: str, wanted: set[str], label: str
) -> tuple[Value, str]:
    """The operand summed over letters that nobody else has."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in wanted)
    if not axes:
        return value, term
    total = part(ctx, node, "reduce_sum", (value,), label, {"axes": axes})
    left = "".join(letter for letter in term if letter in wanted)
    shape = tuple(value.shape[term.index(letter)] for letter in left)
    return ctx.builder.view(total, shape, f"{node.output[0]}_{label}_shape"), left


def _product(
    ctx: Context,
    node: onnx.NodeProto,
    pair: tuple[tuple[Value, str], tuple[Value, str]],
    out: str,
    sizes: Mapping[str, int],
) -> tuple[Value, str]:
    """The batched product, and its letters in order."""
    (a, first), (b, second) = pair
    shared = [letter for letter in first if letter in second]
    batch = "".join(letter for letter in shared if letter in out)
    summed = "".join(letter for letter in shared if letter not in out)
    rows = "".join(letter for letter in first if letter not in second)
    columns = "".join(letter for letter in second if letter not in first)
    # An operand that lies turned already is taken as it lies.
    a_turned = first == batch + summed + rows and first != batch + rows + summed
    c_turned = second == batch + columns + summed and second != batch + summed + columns
    a_order = batch + summed + rows if a_turned else batch + rows + summed
    c_order = batch + columns + summed if c_turned else batch + summed + columns

    def matrices(value: Value, term: str, order: str, inner: str, label: str) -> Value:
        perm = [term.index(letter) for letter in order]
        turned = transposed(ctx, node, value, perm, f"{node.output[0]}_{label}")
        count = math.prod(sizes[letter] for letter in batch)
        width = math.prod(sizes[letter] for letter in inner)
        shape = (count, value.type.elements // (count * width), width)
        return ctx.builder.view(turned, shape, f"{node.output[0]}_{label}_matrices")

    left = matrices(a, first, a_order, rows if a_turned else summed, "left")
    right = matrices(b, second, c_order, summed if c_turned else columns, "right")
    attrs = {"a_is_turned": int(a_turned), "c_is_turned": int(c_turned)}
    product = part(ctx, node, "matmul", (left, right), "product", attrs)
    letters = batch + rows + columns
    shape = tuple(sizes[letter] for letter in letters)
    return ctx.builder.view(product, shape, f"{node.output[0]}_product_shape"), letters
