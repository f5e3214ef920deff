"""From files to graphs: board, model, training graph, evaluation graph, each verified."""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import ImportedModel, load_model, weight_names
from poet_mcu.frontend.select import last_layers, selector
from poet_mcu.ir.graph import Graph
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options
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
        return self.options.ram_bytes or self.board.sram.size_bytes


def prepare(options: Options) -> Prepared:
    """Read and check everything that needs no solver and no compiler."""
    board = load_board(options.board)
    chosen = _chosen(options)
    imported = load_model(options.model, options.batch, chosen.__contains__)
    try:
        train = training_graph(imported.graph, options, activation=imported.activation)
    except ModelError as error:
        raise ModelError(f"{options.model.name}: {error}") from error
    verify_graph(train, training=True)
    evaluation = evaluation_graph(imported.graph, train)
    verify_graph(evaluation, training=False)
    notes = (*imported.report.notes, *training_notes(train, options))
    return Prepared(options, board, imported, train, evaluation, notes)


def _chosen(options: Options) -> frozenset[str]:
    """The names of the weights to train."""
    names = list(weight_names(options.model))
    chosen = selector(list(options.train), list(options.freeze), names)
    if options.train_last is None:
        return chosen
    every = load_model(options.model, options.batch, lambda _: True)
    return chosen & last_layers(every.graph, options.train_last)
