"""Two programs and their graphs -> the view that the model's templates print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poet_mcu.cnames import board_names, c_string, comment_text
from poet_mcu.codegen.spelling import c_bytes, c_float, c_rows
from poet_mcu.codegen.steps import CodeNames, step_view
from poet_mcu.codegen.tensor_names import OFFERED, tensor_name
from poet_mcu.codegen.views import (
    ArrayView,
    Banner,
    ModelView,
    PageRow,
    PartRow,
    StepView,
    TensorRow,
)
from poet_mcu.ir.graph import DType, Graph, Role, Value
from poet_mcu.ir.placement import ArenaPart, CheckpointSlots, parts_end
from poet_mcu.ir.program import Home, Program
from poet_mcu.training.recipe import Recipe

ABI_VERSION = 3  # POET_ABI_VERSION of firmware/include/poet/model.h; a test compares them

_ROLE = {
    Role.INPUT: "POET_ROLE_INPUT",
    Role.LABEL: "POET_ROLE_LABEL",
    Role.PARAMETER: "POET_ROLE_PARAMETER",
    Role.STATE: "POET_ROLE_STATE",
    Role.STATISTIC: "POET_ROLE_PARAMETER",  # to the board a weight that it changes itself
    Role.CONSTANT: "POET_ROLE_CONSTANT",
    Role.LOSS: "POET_ROLE_LOSS",
}
_STORED = (Role.PARAMETER, Role.CONSTANT, Role.STATISTIC)
_DTYPE = {DType.F32: "POET_F32", DType.I32: "POET_I32", DType.U8: "POET_U8"}


@dataclass(frozen=True, slots=True)
class CodeInput:
    """What the generated files are made of.

    ``arena_bytes`` counts through ``parts`` and the main RAM behind them.
    """

    banner: Banner
    name: str
    board: str
    train_graph: Graph
    eval_graph: Graph
    train: Program
    evaluation: Program
    arena_bytes: int
    arena_alignment_bytes: int
    parts: tuple[ArenaPart, ...]
    region_block: int
    region_blocks: int
    slots: CheckpointSlots
    default_lr: float
    recipe: Recipe
    model_hash: bytes
    build_id: bytes


def model_view(code: CodeInput) -> ModelView:
    """The context of the model's templates."""
    names = CodeNames()
    train, evaluation = _steps(code, names)
    pages = (
        *_page_rows(code.train_graph, code.train),
        *_page_rows(code.eval_graph, code.evaluation, leave_out=code.eval_graph.card_homes),
    )
    return ModelView(
        banner=code.banner,
        abi_version=ABI_VERSION,
        name_literal=c_string(code.name),
        board_literal=c_string(code.board),
        arena_bytes=code.arena_bytes,
        arena_alignment_bytes=code.arena_alignment_bytes,
        main_bytes=max(code.arena_alignment_bytes, code.arena_bytes - parts_end(code.parts)),
        parts=_part_rows(code),
        address=_address(code.parts),
        page_count=len(pages),
        kept_page_count=len(code.train_graph.card_homes),
        region_block=code.region_block,
        region_blocks=code.region_blocks,
        slot_block=code.slots.first_block,
        slot_blocks=code.slots.blocks,
        default_lr=c_float(code.default_lr),
        training=_training(code.recipe),
        build_id=_id_array(code.build_id),
        build_id_field=_id_field(code.build_id),
        model_hash_field=c_bytes(".model_hash = ", code.model_hash, ",", 4),
        train_action_count=len(code.train.instructions),
        eval_action_count=len(code.evaluation.instructions),
        descriptors=tuple(names.descriptors.values()),
        train=train,
        evaluation=evaluation,
        arrays=_arrays(code.train_graph, names),
        tensors=_tensor_rows(code, names),
        pages=pages,
    )


def _part_rows(code: CodeInput) -> tuple[PartRow, ...]:
    """One array a part, each in a section of its own."""
    return tuple(
        PartRow(f"poet_arena_{i}", f".arena{i}", part.nbytes,
                comment_text(f"{part.name}: offsets {part.offset} to {part.end - 1}"))
        for i, part in enumerate(code.parts, 1)
    )  # fmt: skip


def _address(parts: Sequence[ArenaPart]) -> str:
    """An offset's address in C: decided by the compiler, as all offsets are constants."""
    text = f"poet_arena + ((offset) - {parts[-1].end}u)" if parts else "poet_arena + (offset)"
    for i, part in reversed(list(enumerate(parts, 1))):
        inside = f"poet_arena_{i} + ((offset) - {part.offset}u)"
        text = f"((offset) < {part.end}u ? {inside} : {text})"
    return text


_LR_KIND = {
    "constant": "POET_LR_CONSTANT",
    "step": "POET_LR_STEP",
    "cosine": "POET_LR_COSINE",
}


def _training(recipe: Recipe) -> tuple[str, ...]:
    """Initializers of poet_training."""
    length = (recipe.total_steps or 0) - recipe.warmup
    period = recipe.lr_step if recipe.lr_schedule == "step" else length
    return (
        f".accumulate = {recipe.accumulate}u",
        f".lr_kind = {_LR_KIND[recipe.lr_schedule]}",
        f".warmup = {recipe.warmup}u",
        f".period = {0 if recipe.lr_schedule == 'constant' else period}u",
        f".gamma = {c_float(recipe.lr_gamma)}",
        f".floor = {c_float(recipe.lr_floor)}",
        f".complement1 = {c_float(1 - recipe.beta1)}",
        f".complement2 = {c_float(1 - recipe.beta2)}",
    )


def _steps(code: CodeInput, names: CodeNames) -> tuple[StepView, StepView]:
    """The two functions; offsets of a training step are named at_..., of an evaluation ev_..."""
    train = step_view(
        code.train_graph,
        code.train,
        names,
        "poet_generated_train_step",
        "One training step: forward, loss, backward, update.",
        "at",
    )
    evaluation = step_view(
        code.eval_graph,
        code.evaluation,
        names,
        "poet_generated_eval_step",
        "One evaluation: forward only.",
        "ev",
    )
    return train, evaluation


def with_build_id(view: ModelView, build_id: bytes) -> ModelView:
    """The same view under the id that its sources turned out to have."""
    return replace(view, build_id=_id_array(build_id), build_id_field=_id_field(build_id))


def _id_array(build_id: bytes) -> str:
    return c_bytes("static const uint8_t build_id[16] = ", build_id, ";", 0)


def _id_field(build_id: bytes) -> str:
    return c_bytes(".build_id = ", build_id, ",", 4)


def _arrays(graph: Graph, names: CodeNames) -> tuple[ArrayView, ...]:
    rows = []
    for value in graph.with_role(*_STORED):
        array = graph.initial[value.id]
        dims = " x ".join(str(d) for d in value.shape) or "scalar"
        rows.append(
            ArrayView(
                names.constant(tensor_name(value)),
                value.type.dtype.value,
                value.type.elements,
                comment_text(f"{tensor_name(value)}: {dims}"),
                c_rows(array),
            )
        )
    return tuple(rows)


EVAL_PREFIX = "eval:"


def _tensor_rows(code: CodeInput, names: CodeNames) -> tuple[TensorRow, ...]:
    """Those of the training step first: the host knows their names without the evaluation's."""
    homes = {home.value: home.offset for home in code.train.homes + code.train.results}
    rows = []
    for value in code.train_graph.with_role(*OFFERED):
        kept = value.role in _STORED
        initial = names.constant(tensor_name(value)) if kept else "NULL"
        away = value.role is Role.CONSTANT or value.id in code.train_graph.card_homes
        data = "NULL" if away else f"U8({homes[value.id]}u)"
        rows.append(_row(value, data, initial, _ROLE[value.role]))
    graph = code.eval_graph
    inputs = [h for h in code.evaluation.homes if graph.values[h.value].role is Role.INPUT]
    rows += [_eval_row(graph, home, "POET_ROLE_EVAL_INPUT") for home in inputs]
    rows += [_eval_row(graph, home, "POET_ROLE_EVAL_OUTPUT") for home in code.evaluation.results]
    told = board_names([name for name, _ in rows])
    return tuple(
        replace(row, name_literal=c_string(name)) for name, (_, row) in zip(told, rows, strict=True)
    )


def _eval_row(graph: Graph, home: Home, role: str) -> tuple[str, TensorRow]:
    value = graph.values[home.value]
    return _row(value, f"U8({home.offset}u)", "NULL", role, EVAL_PREFIX)


def _row(
    value: Value, data: str, initial: str, role: str, prefix: str = ""
) -> tuple[str, TensorRow]:
    """The full name, and all of the row but the name."""
    name = prefix + tensor_name(value)
    note = comment_text(f"{name}: {' x '.join(str(d) for d in value.shape) or 'scalar'}")
    return name, TensorRow(
        "", data, initial, value.type.nbytes, role, _DTYPE[value.type.dtype], note
    )


def _page_rows(
    graph: Graph, program: Program, leave_out: frozenset[int] = frozenset()
) -> tuple[PageRow, ...]:
    return tuple(
        PageRow(p.first_block, p.nbytes, comment_text(graph.values[p.value].name))
        for p in program.pages
        if p.value not in leave_out
    )
