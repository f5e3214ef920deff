"""From files to graphs: board, model, training graph, evaluation graph, each verified."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.cost import knows_slow_transfers
from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import ImportedModel, load_model, weight_names
from poet_mcu.frontend.select import last_layers, selector
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.lower.select import with_forms
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.stepplan import budget_of
from poet_mcu.schedule.pricing import changed_twice, too_large_to_page, with_card_homes
from poet_mcu.training.fuse import fused
from poet_mcu.training.order import ORDERS, reordered
from poet_mcu.training.training import evaluation_graph, training_graph, training_notes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A board and a model, ready to be planned. ``notes`` are sentences for the user."""

    options: Options
    board: Board
    imported: ImportedModel
    train: Graph
    evaluation: Graph
    notes: tuple[str, ...] = ()

    @property
    def ram_bytes(self) -> int:
        """The budget for everything in RAM."""
        return self.options.ram_bytes or self.board.ram_bytes

    @property
    def steps(self) -> int | None:
        """Steps of the whole training whose deadline was given; None: it is one step's."""
        shape = self.train.with_role(Role.INPUT)[0].shape
        return self.options.steps(shape[0] if shape else 1)

    @property
    def deadline_s(self) -> float | None:
        """Deadline of one training step."""
        whole_s, steps = self.options.deadline_s, self.steps
        return whole_s if whole_s is None or steps is None else whole_s / steps


def prepare(options: Options) -> Prepared:
    """Read and check everything that needs no solver and no compiler."""
    board = load_board(options.board)
    chosen = _chosen(options)
    imported = load_model(
        options.model,
        options.batch,
        chosen.__contains__,
        batchnorm=options.batchnorm,
        fuse_sigmoid=options.loss == "bce",
        dropout=options.dropout,
        seed=options.seed,
    )
    try:
        train = training_graph(imported.graph, options, activation=imported.activation)
    except ModelError as error:
        raise ModelError(f"{options.model.name}: {error}") from error
    alignment, on_card = board.arena.alignment_bytes, options.home_parameters == "card"
    stay = changed_twice(train) | too_large_to_page(train, board)
    if on_card:
        train = with_card_homes(train, alignment, stay)
    evaluation = evaluation_graph(imported.graph, train)
    if on_card:
        evaluation = with_card_homes(evaluation, alignment, stay)
    if options.fuse:
        train, evaluation = fused(train), fused(evaluation)
    if options.order != "auto":
        train = reordered(train, ORDERS[options.order](train))
    verify_graph(train, training=True)
    verify_graph(evaluation, training=False)
    notes = (*imported.report.notes, *training_notes(train, options), *_time_notes(board, options))
    return _with_forms(Prepared(options, board, imported, train, evaluation, notes))


def _time_notes(board: Board, options: Options) -> tuple[str, ...]:
    if options.deadline_s is None or not knows_slow_transfers(board):
        return ()
    return ("seconds are of slow transfers, the 99th percentile, to hold the deadline",)


def _with_forms(prepared: Prepared) -> Prepared:
    """The forms of kernels that are fastest on the board within the budget."""
    board, graphs = prepared.board, (prepared.train, prepared.evaluation)
    paging = prepared.options.paging
    memory_bytes = budget_of(board, prepared.ram_bytes, graphs, paging=paging).arena_bytes
    train, evaluation = (with_forms(graph, board, memory_bytes) for graph in graphs)
    return replace(prepared, train=train, evaluation=evaluation)


def _chosen(options: Options) -> frozenset[str]:
    """The names of the weights to train."""
    names = weight_names(options.model)
    chosen = selector(list(options.train), list(options.freeze), names.every, names.numbers)
    if options.train_last is None:
        return chosen
    every = load_model(options.model, options.batch, lambda _: True, dropout="off")
    return chosen & last_layers(every.graph, options.train_last)
