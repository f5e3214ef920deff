"""What something costs: seconds and joules, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of wall clock and joules of the whole board (CPU and card) during them."""

    seconds: float
    joules: float

    def __add__(self, other: Price) -> Price:
        """One after the other."""
        return Price(self.seconds + other.seconds, self.joules + other.joules)
