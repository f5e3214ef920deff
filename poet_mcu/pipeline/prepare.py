"""From files to graphs: board, model, training graph, evaluation graph, each verified."""

from __future__ import annotations

from dataclasses import dataclass

from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.errors import ModelError
from poet_mcu.frontend.onnx_import import ImportedModel, load_model, weight_names
from poet_mcu.frontend.select import selector
from poet_mcu.ir.graph import Graph, Role
from poet_mcu.ir.verify_graph import verify_graph
from poet_mcu.pipeline.options import Options
from poet_mcu.schedule.pricing import with_card_homes
from poet_mcu.training.order import ORDERS, reordered
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
    names = list(weight_names(options.model))
    chosen = selector(list(options.train), list(options.freeze), names)
    imported = load_model(
        options.model, options.batch, chosen.__contains__, batchnorm=options.batchnorm
    )
    try:
        train = training_graph(
            imported.graph, options.loss, options.optimizer, has_softmax=imported.has_softmax
        )
    except ModelError as error:
        raise ModelError(f"{options.model.name}: {error}") from error
    if options.order != "auto":
        train = reordered(train, ORDERS[options.order](train))
    verify_graph(train, training=True)
    evaluation = evaluation_graph(imported.graph)
    verify_graph(evaluation, training=False)
    if options.home_parameters == "card":
        alignment = board.arena.alignment_bytes
        train = with_card_homes(train, alignment)
        evaluation = with_card_homes(evaluation, alignment)
    return Prepared(options, board, imported, train, evaluation)
