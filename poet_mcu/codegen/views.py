"""Frozen contexts, one per template: finished text and numbers, nothing left to compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Banner:
    """What every generated file says of itself."""

    tool: str
    model: str
    model_sha256: str
    board: str
    options: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The shape of one or more calls; ``text`` is its whole definition."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """One residency of a value: an enumerator that names its offset."""

    name: str
    offset: int
    note: str


@dataclass(frozen=True, slots=True)
class Line:
    """One statement of the straight line; ``comment`` goes above it unless empty."""

    comment: str
    statement: str


@dataclass(frozen=True, slots=True)
class StepView:
    """One straight line as a C function."""

    function: str
    title: str
    places: tuple[Place, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ArrayView:
    """A constant array in flash: ``rows`` are finished lines of initializers."""

    name: str
    ctype: str
    count: int
    note: str
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One row of the tensor table."""

    name_literal: str
    data: str
    initial: str
    nbytes: int
    role: str
    dtype: str
    note: str


@dataclass(frozen=True, slots=True)
class PartRow:
    """The array that is a part of the arena beside the main RAM."""

    name: str
    section: str
    nbytes: int
    note: str


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row of the page table."""

    first_block: int
    nbytes: int
    note: str


@dataclass(frozen=True, slots=True)
class ModelView:
    """Everything the model's own files need.

    ``main_bytes``: of the arena in the main RAM. ``address``: of ``offset``, a C expression.
    """

    banner: Banner
    abi_version: int
    name_literal: str
    board_literal: str
    arena_bytes: int
    arena_alignment_bytes: int
    main_bytes: int
    parts: tuple[PartRow, ...]
    address: str
    page_count: int
    kept_page_count: int
    region_block: int
    region_blocks: int
    slot_block: int
    slot_blocks: int
    default_lr: str
    training: tuple[str, ...]
    build_id: str
    build_id_field: str
    model_hash_field: str
    train_action_count: int
    eval_action_count: int
    descriptors: tuple[Descriptor, ...]
    train: StepView
    evaluation: StepView
    arrays: tuple[ArrayView, ...]
    tensors: tuple[TensorRow, ...]
    pages: tuple[PageRow, ...]


@dataclass(frozen=True, slots=True)
class SelfTestView:
    """Context of poet_selftest.c.j2; ``parts`` and ``rows`` are initializers of its tables."""

    tool: str
    board_literal: str
    build_id_field: str
    arena_bytes: int
    arena_alignment_bytes: int
    parts: tuple[str, ...]
    calls: tuple[str, ...]
    rows: tuple[str, ...]
