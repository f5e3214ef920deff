"""ONNX to the forward graph, and the list of everything that stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from poet_mcu.frontend.layout import sink_transposes
from poet_mcu.frontend.model_file import ModelFile, read_model
from poet_mcu.frontend.normalize import swap_relu_maxpool
from poet_mcu.frontend.problems import Problem, UnsupportedModel, raise_problems
from poet_mcu.frontend.recognise import recognise
from poet_mcu.frontend.walk import Walk
from poet_mcu.ir.graph import Graph

__all__ = [
    "ImportReport",
    "ImportedModel",
    "Problem",
    "check_model",
    "load_model",
    "weight_names",
]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What the import found, for messages and for files.

    ``weights`` are the ONNX names of all stored float tensors that operators read, trained or
    not. ``identity_copies`` maps such a name to the initializer whose start value it shares.
    ``output_shape`` is that of the ONNX output; the logits may be rows of it. ``notes`` are
    sentences for people. ``sha256`` covers the file and its external data.
    """

    input_name: str
    output_name: str
    output_shape: tuple[int, ...]
    opset: int
    ir_version: int
    producer: str
    sha256: str
    weights: tuple[str, ...]
    identity_copies: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """The forward graph.

    With an ``activation`` its output is what goes into a final node of that ONNX name, which is
    left to the loss: the logits [rows, classes] of a Softmax, or those of a Sigmoid.
    """

    graph: Graph
    report: ImportReport
    activation: str

    @property
    def has_softmax(self) -> bool:
        """Whether a final Softmax was left to the loss."""
        return self.activation == "Softmax"


def load_model(
    path: Path,
    batch: int | None,
    trainable: Callable[[str], bool],
    *,
    fuse_softmax: bool = True,
    fuse_sigmoid: bool = False,
    batchnorm: str = "auto",
    dropout: str = "model",
    seed: int = 0,
) -> ImportedModel:
    """The model in ``path`` as a forward graph.

    ``batch`` fills a symbolic first dimension of the input; ``trainable`` is asked with the ONNX
    name of each weight; without ``fuse_softmax`` a final Softmax is computed,
    with ``fuse_sigmoid`` a final Sigmoid is left to the loss. ``batchnorm`` is
    'train' (statistics of the batch), 'frozen' (the stored ones) or 'auto' (train where the scale
    is trained and the batch has a variance). ``dropout`` is 'model' (as each node says), 'on' or
    'off', ``seed`` that of its masks. Raises ModelError that lists all problems at once.
    """
    file = read_model(path)
    walk = Walk(
        file,
        batch,
        trainable,
        fuse_softmax=fuse_softmax,
        fuse_sigmoid=fuse_sigmoid,
        batchnorm=batchnorm,
        dropout=dropout,
        seed=seed,
    )
    walk.run()
    raise_problems(path, walk.problems)
    return _imported(file, walk)


def check_model(path: Path) -> list[Problem]:
    """Every problem of the model in ``path``; raises ModelError when it is no valid ONNX file.

    A symbolic batch counts as 1 and all weights as trained.
    """
    try:
        file = read_model(path)
    except UnsupportedModel as error:
        return list(error.problems)
    walk = Walk(file, None, lambda _: True, default_batch=1)
    walk.run()
    return walk.problems


@dataclass(frozen=True, slots=True)
class WeightNames:
    """ONNX names of weights in the order of use: what ``--train`` and ``--freeze`` match.

    ``numbers`` are those of one element that only arithmetic reads. Exporters write the factors of
    formulas so, and seldom what was learned: they are trained where somebody names them.
    """

    every: tuple[str, ...]
    numbers: frozenset[str]


def weight_names(path: Path) -> WeightNames:
    """The names of the weights; raises ModelError like ``load_model``."""
    walk = Walk(read_model(path), None, lambda _: False, default_batch=1, dropout="off")
    walk.run()
    raise_problems(path, walk.problems)
    return WeightNames(tuple(walk.ctx.weights), frozenset(walk.ctx.numbers))


def _imported(file: ModelFile, walk: Walk) -> ImportedModel:
    walked = walk.graph()
    sunk = sink_transposes(walked)
    forward, chains = recognise(sunk)
    graph = swap_relu_maxpool(forward)
    notes = [*file.notes, *walk.ctx.notes]
    if chains:
        names = ", ".join(sorted(set(chains)))
        notes.append(f"{len(chains)} chains of arithmetic became one operator each: {names}")
    if walk.ctx.dropouts:
        notes.append(f"{walk.ctx.dropouts} Dropout in training steps (--dropout off: none)")
    gone = _count(walked, "transpose") - _count(sunk, "transpose")
    if gone > 0:
        notes.append(f"{gone} Transposes cancelled or moved into constants")
    moved = _relu_ids(forward) - _relu_ids(graph)
    if moved:
        notes.append(f"{len(moved)} Relu moved behind MaxPool: same values, less memory")
    notes += _weight_notes(walk)
    report = ImportReport(
        input_name=walk.input_name,
        output_name=walk.output_name,
        output_shape=walk.output_shape,
        opset=file.opset,
        ir_version=file.proto.ir_version,
        producer=f"{file.proto.producer_name} {file.proto.producer_version}".strip(),
        sha256=file.sha256,
        weights=tuple(walk.ctx.weights),
        identity_copies=dict(walk.ctx.identity_copies),
        notes=tuple(notes),
    )
    return ImportedModel(graph, report, walk.activation)


def _weight_notes(walk: Walk) -> list[str]:
    """What a user may not expect of the weights."""
    notes = []
    tied = _tied(walk)
    if tied:
        some = ", ".join(f"'{name}'" for name in tied[:5])
        notes.append(
            f"{len(tied)} weights are read by several operators, each is trained as one: {some}; "
            "exporters merge tensors of equal start values: let those differ that are meant apart"
        )
    still = sorted(name for name in walk.ctx.numbers if not walk.ctx.trainable(name))
    if still:
        some = ", ".join(f"'{name}'" for name in still[:5])
        notes.append(f"{len(still)} numbers in formulas stay as they are: {some}")
    return notes


def _tied(walk: Walk) -> list[str]:
    """Trained weights that more than one operator reads."""
    ctx = walk.ctx
    return [
        name
        for name, value in ctx.weights.items()
        if value is not None and ctx.trainable(name) and len(ctx.consumers.get(name, ())) > 1
    ]


def _count(graph: Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def _relu_ids(graph: Graph) -> set[int]:
    return {node.id for node in graph.nodes if node.op == "relu"}
