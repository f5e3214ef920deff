"""Steps on a board until all are done, with what a host can do when something fails on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from poet_mcu.errors import DeviceError
from poet_mcu.link import status
from poet_mcu.link.protocol import CHECKPOINT_ACTION
from poet_mcu.link.transport import BoardFault
from poet_mcu.pipeline.position import Batches, Position
from poet_mcu.pipeline.session import Session

#: recoveries without a new step between them; a card that fails this often needs a person
RECOVERIES = 3


class Restarted(DeviceError):
    """The board has started again in the middle of a training."""


@dataclass(slots=True)
class TrainingRun:
    """``steps`` training steps on the board of ``session``, which is at step ``start``.

    With ``every`` the board writes a checkpoint after each so many steps, and a step that fails, or
    a board that has restarted, costs the steps since the last one: they are done again, to the same
    bits. Without, the first failure ends the run.
    """

    session: Session
    batches: Batches
    position: Position
    steps: int
    every: int
    start: int
    losses: dict[int, float] = field(default_factory=dict)
    recoveries: int = 0
    lost_checkpoint: bool = False  # a recovery found that a newer one than it took may be lost
    _since_progress: int = 0

    def run(self, watch: Callable[[int, float], None]) -> None:
        """Do them. ``watch`` sees the step just done and its loss.

        Raises DeviceError when the board fails for good, or a loss is not finite.
        """
        step = self.start
        if self.every:
            self._plan()
            self._save(step)  # the newest checkpoint on the card is this run's from here on
        while step < self.steps:
            try:
                loss = self._step(step)
            except (BoardFault, Restarted) as error:
                step = self._go_back(error)
                continue
            _require_finite(loss, step + 1)
            watch(step, loss)
            step += 1
        self.require_all_done()

    def _plan(self) -> None:
        self.session.board.plan_checkpoints(self.every, self.position.pack())

    def _step(self, step: int) -> float:
        """The loss of one step; where a checkpoint is due, it is on the card."""
        board, lr = self.session.board, self.position.lr
        try:
            loss = self.session.train_step(*self.batches.at(step), lr).loss
        except BoardFault as error:
            if not self.every or error.answer.fault.action != CHECKPOINT_ACTION:
                raise
            # The step is done and counted; what failed is its checkpoint. See below.
            self._save(step + 1)
            loss = board.train_step(lr=lr, step=step).loss
        if step == 0:
            self._require_begun()
        if step not in self.losses:
            self._since_progress = 0
        self.losses[step] = loss
        if self.every and ((step + 1) % self.every == 0 or step + 1 == self.steps):
            # A board that has just saved says so at once; one that restarted before the first step
            # has forgotten to.
            self._save(step + 1)
        return loss

    def _save(self, step: int) -> None:
        while True:
            try:
                self.session.board.checkpoint(step)
            except BoardFault as error:
                if error.answer.status == status.E_STATE:
                    self._require_begun()
                    raise
                if not self._may_try():
                    raise
            else:
                return

    def _require_begun(self) -> None:
        """Raise Restarted when the board has forgotten what it was told, its inputs too.

        From the second step on the number of steps tells, before the first it is 0 anyway.
        """
        board = self.session.board
        if not board.identify().begun:
            raise Restarted(
                f"{board.url}: training: expected a board that runs on, got one that has "
                "restarted; check its supply, train with --checkpoint-every to go on by itself"
            )

    def _go_back(self, error: BoardFault | Restarted) -> int:
        """Go back to the newest checkpoint; the step to go on with."""
        if not self.every:
            self._require_begun()  # a restart is the better explanation
        while self._may_try():
            try:
                restored = self.session.board.restore()
            except BoardFault:
                continue
            if restored.position != self.position.pack():
                break
            self.lost_checkpoint |= restored.damaged
            self._plan()
            return restored.step
        raise error

    def _may_try(self) -> bool:
        """Whether one more recovery is worth it; counts it."""
        if not self.every or self._since_progress == RECOVERIES:
            return False
        self._since_progress += 1
        self.recoveries += 1
        return True

    def require_all_done(self) -> None:
        """Raise DeviceError when the board has restarted since: its weights are not these."""
        done = self.session.board.identify().steps_done
        if done != self.steps:
            raise DeviceError(
                f"{self.session.board.url}: training: expected {self.steps} steps done, got "
                f"{done}; the board has restarted: train with --checkpoint-every"
            )


def _require_finite(loss: float, step: int) -> None:
    if not np.isfinite(loss):
        raise DeviceError(
            f"training: step {step}: expected a finite loss, got {loss}; lower --lr, or check the "
            "data"
        )
