"""When each buffer is live: the residencies a schedule implies, in-place chains, and scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from poet_mcu.errors import InternalError
from poet_mcu.ir.graph import HOST_WRITTEN, Graph
from poet_mcu.ir.schedule import ActionKind, Schedule
from poet_mcu.units import round_up


@dataclass(frozen=True, slots=True)
class Residency:
    """One stay of a root value in the arena: actions [first, last) as ``ir/placement.py`` counts.

    ``takes_over`` is the index (in ``Lifetimes.residencies``) of the residency whose bytes this
    one was computed over, or None. A chain of takeovers shares one offset.
    """

    value: int
    nbytes: int
    first: int
    last: int
    takes_over: int | None = None


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """All that needs bytes in the arena during one step.

    ``home`` holds (value id, bytes) of what is resident all the time, ``residencies`` the rest in
    order of their first action, ``scratch`` (action, bytes) of computes with a workspace.
    """

    actions: int
    home: tuple[tuple[int, int], ...]
    residencies: tuple[Residency, ...]
    scratch: tuple[tuple[int, int], ...]

    @property
    def home_bytes(self) -> int:
        """Bytes of the values that are resident all the time."""
        return sum(nbytes for _, nbytes in self.home)


def lifetimes(
    graph: Graph,
    schedule: Schedule,
    sizes: Mapping[int, int],
    workspace: Mapping[int, int],
    alignment_bytes: int,
) -> Lifetimes:
    """The lifetimes of a schedule that ``verify_schedule`` accepts.

    Args:
        graph: the graph of the schedule.
        schedule: the actions of one step.
        sizes: padded bytes by root value id, each a multiple of ``alignment_bytes``.
        workspace: bytes by node id, rounded up here; a missing node needs none.
        alignment_bytes: of every offset.

    Raises:
        InternalError: a size is missing or not padded, or a value ends that is not resident.
    """
    walk = _Walk(_Sizes(sizes, alignment_bytes))
    home = tuple((v.id, walk.sizes.of(v.id)) for v in graph.home_ram())
    for value in graph.with_role(*HOST_WRITTEN):
        walk.begin(value.id, 0)
    scratch: list[tuple[int, int]] = []
    for index, action in enumerate(schedule.actions):
        if action.kind is ActionKind.FREE:
            walk.end(action.subject, index + 1)
        elif action.kind is ActionKind.PAGE_IN:
            walk.begin(action.subject, index)
        elif action.kind is ActionKind.COMPUTE:
            over = {graph.root(out): walk.end(taken, index + 1) for out, taken in action.in_place}
            for out in (graph.root(value) for value in graph.nodes[action.subject].outputs):
                walk.begin(out, index, over.get(out))
            needed = round_up(workspace.get(action.subject, 0), alignment_bytes)
            if needed > 0:
                scratch.append((index, needed))
    end = len(schedule.actions)
    for value_id in list(walk.open):
        walk.end(value_id, end)
    return Lifetimes(end, home, walk.residencies(), tuple(scratch))


@dataclass(frozen=True, slots=True)
class _Sizes:
    sizes: Mapping[int, int]
    alignment_bytes: int

    def of(self, value: int) -> int:
        nbytes = self.sizes.get(value)
        if nbytes is None or nbytes < 0 or nbytes % self.alignment_bytes != 0:
            raise InternalError(
                f"sizes: value {value}: expected a multiple of {self.alignment_bytes} bytes, "
                f"got {nbytes}; pad with units.round_up before planning"
            )
        return nbytes


@dataclass(slots=True)
class _Walk:
    sizes: _Sizes
    #: [value, bytes, first, last (-1 while open), taken over index]
    rows: list[tuple[int, int, int, int | None]] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)

    def begin(self, value: int, action: int, over: int | None = None) -> None:
        if value in self.open:
            raise InternalError(
                f"schedule: action {action}: expected value {value} not resident, got a second "
                "begin; run verify_schedule first"
            )
        self.open[value] = len(self.rows)
        self.rows.append((value, self.sizes.of(value), action, over))
        self.lasts.append(-1)

    def end(self, value: int, last: int) -> int:
        if value not in self.open:
            raise InternalError(
                f"schedule: action {last - 1}: expected value {value} resident, got none; "
                "run verify_schedule first"
            )
        index = self.open.pop(value)
        self.lasts[index] = last
        return index

    def residencies(self) -> tuple[Residency, ...]:
        return tuple(
            Residency(value, nbytes, first, last, over)
            for (value, nbytes, first, over), last in zip(self.rows, self.lasts, strict=True)
        )


def live_profile(lives: Lifetimes) -> list[int]:
    """Live bytes during each action: home, residencies and scratch.

    During the action of a takeover the successor lies inside its predecessor and adds nothing.
    """
    change = [0] * (lives.actions + 1)
    for stay in lives.residencies:
        first = stay.first
        if stay.takes_over is not None:
            first = lives.residencies[stay.takes_over].last
        change[first] += stay.nbytes
        change[stay.last] -= stay.nbytes
    for action, nbytes in lives.scratch:
        change[action] += nbytes
        change[action + 1] -= nbytes
    profile: list[int] = []
    live = lives.home_bytes
    for delta in change[:-1]:
        live += delta
        profile.append(live)
    return profile


def live_peak_bytes(
    graph: Graph,
    schedule: Schedule,
    sizes: Mapping[int, int],
    workspace: Mapping[int, int],
    alignment_bytes: int,
) -> int:
    """Most bytes live during one action: no arena can be smaller.

    Counts values with a home in RAM, everything resident, and the running node's workspace
    (rounded up to the alignment).
    """
    lives = lifetimes(graph, schedule, sizes, workspace, alignment_bytes)
    return max(live_profile(lives), default=lives.home_bytes)
