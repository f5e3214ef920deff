"""A graph and a board -> the planner's problem: padded sizes, seconds and joules of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from poet_mcu.board.schema import Board
from poet_mcu.cost import (
    node_price,
    page_in_price,
    page_out_price,
    slow_page_in_s,
    slow_page_out_s,
)
from poet_mcu.ir.graph import HOME_FLASH, HOME_RAM, HOST_WRITTEN, Graph, Node, Phase, Role, Value
from poet_mcu.ops.operator import Operator
from poet_mcu.ops.table import OPERATORS
from poet_mcu.schedule.problem import Op, Problem, Tensor
from poet_mcu.units import BLOCK_BYTES, round_up


def padded_sizes(graph: Graph, alignment_bytes: int) -> dict[int, int]:
    """Arena bytes of each root value that lives in RAM, rounded up to the alignment."""
    return {
        value.id: round_up(max(value.type.nbytes, 1), alignment_bytes)
        for value in graph.values
        if value.base is None and value.role not in HOME_FLASH
    }


def home_bytes(graph: Graph, sizes: Mapping[int, int]) -> int:
    """Arena bytes that parameters and optimizer state hold all the time."""
    return sum(sizes[value.id] for value in graph.home_ram())


def with_card_homes(
    graph: Graph, alignment_bytes: int, stay: frozenset[str] = frozenset()
) -> Graph:
    """``graph`` with every parameter and state on the card that fills a block there.

    Values named in ``stay`` keep their home in RAM.
    """
    sizes = padded_sizes(graph, alignment_bytes)
    homes = {
        v.id
        for v in graph.with_role(*HOME_RAM)
        if sizes[v.id] >= BLOCK_BYTES and v.name not in stay
    }
    return replace(graph, card_homes=frozenset(homes))


def too_large_to_page(graph: Graph, board: Board) -> frozenset[str]:
    """Names of the parameters and states that no part of the RAM can take from the card."""
    sizes = padded_sizes(graph, board.arena.alignment_bytes)
    kept = graph.with_role(*HOME_RAM)
    return frozenset(v.name for v in kept if sizes[v.id] > board.most_paged_bytes)


def changed_twice(graph: Graph) -> frozenset[str]:
    """Names of the values that several nodes overwrite: accumulated gradients.

    The planner lets a home on the card change once in a step, behind all its readers.
    """
    counts = Counter(value for node in graph.nodes for value in node.mutates)
    return frozenset(graph.values[value].name for value, count in counts.items() if count > 1)


def workspaces(graph: Graph) -> dict[int, int]:
    """Scratch bytes by node id, for the nodes that need any."""
    found = {}
    for node in graph.nodes:
        inputs = [graph.values[v].type for v in node.inputs]
        outputs = [graph.values[v].type for v in node.outputs]
        nbytes = OPERATORS[node.op].workspace_bytes(inputs, outputs, node.attrs)
        if nbytes:
            found[node.id] = nbytes
    return found


def not_recomputable(graph: Graph) -> frozenset[int]:
    """Nodes that must run exactly once.

    Those with effects, those whose operator says so, and those whose recomputation could read a
    parameter after its update: a result is needed until its last reader, also through recomputed
    readers, and must not be computed again from the new value.
    """
    updated_at = {value: node.id for node in graph.nodes for value in node.mutates}
    needed_until: dict[int, int] = {}
    found: set[int] = set()
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for value in {graph.root(v) for v in node.inputs}:
            readers.setdefault(value, []).append(node)
    for node in reversed(graph.nodes):
        last = node.id
        for value in node.outputs:
            for reader in readers.get(graph.root(value), ()):
                last = max(last, reader.id)
                if reader.id not in found:
                    last = max(last, needed_until[reader.id])
        needed_until[node.id] = last
        stale = any(updated_at.get(graph.root(v), last + 1) <= last for v in node.inputs)
        if node.mutates or stale or not OPERATORS[node.op].recomputable:
            found.add(node.id)
    return frozenset(found)


def make_problem(
    graph: Graph,
    board: Board,
    memory_bytes: int,
    deadline_s: float | None = None,
    max_write_bytes: int | None = None,
) -> Problem:
    """The problem of one step of ``graph`` with ``memory_bytes`` of arena for everything.

    What has its home in RAM is taken off ``memory_bytes`` here. With a deadline transfers take the
    seconds of slow ones; their joules stay those of the median.
    """
    slow = deadline_s is not None
    alignment = board.arena.alignment_bytes
    sizes = padded_sizes(graph, alignment)
    scratch = workspaces(graph)
    once = not_recomputable(graph)
    outputs = {graph.root(v) for v in graph.outputs}
    tensors = tuple(
        _tensor(graph, value, sizes[value.id], board, at_end=value.id in outputs, slow=slow)
        for value in graph.values
        if value.base is None and not graph.always_there(value.id)
    )
    ops = tuple(
        _op(graph, node, board, round_up(scratch.get(node.id, 0), alignment), node.id not in once)
        for node in graph.nodes
    )
    return Problem(
        graph.name,
        tensors,
        ops,
        memory_bytes - home_bytes(graph, sizes),
        deadline_s,
        alignment,
        overlap=board.storage.overlap,
        wait_w=board.power.idle_w,  # the CPU sleeps until the transfer's interrupt
        max_write_bytes=max_write_bytes,
    )


def _tensor(
    graph: Graph, value: Value, nbytes: int, board: Board, *, at_end: bool, slow: bool
) -> Tensor:
    read, written = page_in_price(nbytes, board), page_out_price(nbytes, board)
    on_card = value.id in graph.card_homes
    return Tensor(
        id=value.id,
        name=value.name,
        nbytes=nbytes,
        pageable=BLOCK_BYTES <= nbytes <= board.most_paged_bytes and value.role is not Role.LOSS,
        page_in_s=slow_page_in_s(nbytes, board) if slow else read.seconds,
        page_out_s=slow_page_out_s(nbytes, board) if slow else written.seconds,
        page_in_j=read.joules,
        page_out_j=written.joules,
        at_start=value.role in HOST_WRITTEN,
        at_end=at_end,
        at_start_paged=on_card,
        at_end_paged=on_card,
    )


def _op(graph: Graph, node: Node, board: Board, workspace_bytes: int, recomputable: bool) -> Op:
    operator = OPERATORS[node.op]
    types = [graph.values[v].type for v in node.inputs]
    out_types = [graph.values[v].type for v in node.outputs]
    price = node_price(operator.cost(types, out_types, node.attrs), board)
    roots = dict.fromkeys(graph.root(v) for v in node.inputs)
    return Op(
        id=node.id,
        name=node.origin or f"{node.op} {_label(graph, node)}",
        inputs=tuple(r for r in roots if not graph.always_there(r)),
        outputs=tuple(node.outputs),
        compute_s=price.seconds,
        compute_j=price.joules,
        workspace_bytes=workspace_bytes,
        recomputable=recomputable,
        backward=node.phase is not Phase.FORWARD,
        in_place=_in_place(graph, node, operator),
        mutates=tuple(r for r in map(graph.root, node.mutates) if r in graph.card_homes),
    )


def _label(graph: Graph, node: Node) -> str:
    return graph.values[(node.outputs or node.mutates)[0]].name


def _in_place(graph: Graph, node: Node, operator: Operator) -> tuple[tuple[int, int], ...]:
    """Legal (output, input) pairs: same bytes, the input not a value with a home."""
    pairs = []
    for out, source in operator.in_place:
        output, root = node.outputs[out], graph.root(node.inputs[source])
        movable = graph.values[root].role not in HOME_FLASH | HOME_RAM
        if movable and graph.values[output].type.nbytes == graph.values[root].type.nbytes:
            pairs.append((output, root))
    return tuple(dict.fromkeys(pairs))
