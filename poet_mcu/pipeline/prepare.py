"""From files to graphs: board, model, training graph, evaluation graph, each verified."""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import ImportedModel, load_model, weight_names
from poet_mcu.frontend.select import selector
from poet_mcu.ir.graph import Graph
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options
from poet_mcu.training.training import evaluation_graph, training_graph


@dataclass(frozen=True, slots=True)
class Prepared:
    """A board and a model, ready to be planned."""

    options: Options
    board: Board
    imported: ImportedModel
    train: Graph
    evaluation: Graph

    @property
    def ram_bytes(self) -> int:
        """The budget for everything in RAM."""
        return self.options.ram_bytes or self.board.sram.size_bytes


def prepare(options: Options) -> Prepared:
    """Read and check everything that needs no solver and no compiler."""
    board = load_board(options.board)
    names = list(weight_names(options.model))
    chosen = selector(list(options.train), list(options.freeze), names)
    imported = load_model(options.model, options.batch, chosen.__contains__, options.batchnorm)
    try:
        train = training_graph(
            imported.graph, options.loss, options.optimizer, has_softmax=imported.has_softmax
        )
    except ModelError as error:
        raise ModelError(f"{options.model.name}: {error}") from error
    verify_graph(train, training=True)
    evaluation = evaluation_graph(imported.graph)
    verify_graph(evaluation, training=False)
    return Prepared(options, board, imported, train, evaluation)
