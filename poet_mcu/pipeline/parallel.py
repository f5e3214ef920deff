"""Independent tasks in worker processes that can be stopped at any moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from poet_mcu import errors
from poet_mcu.errors import InternalError, PoetError

T = TypeVar("T")
R = TypeVar("R")
_PATIENCE_S = 5.0  # a stopped worker gets so long to end its solver


def run_all(work: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[tuple[int, R]]:
    """(index of the task, result), as they come; in this process when ``jobs`` is 1.

    ``work`` is a function of a module, tasks and results are plain data. An error of ``work``
    is raised here and ends the others; so does closing the iterator.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for index, task in enumerate(tasks):
            yield index, work(task)
        return
    workers: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(min(jobs, len(tasks))):
            ours, process = _start(work)
            workers[ours] = process
        yield from _serve(workers, tasks)
    finally:
        _stop(workers)


def _start(work: Callable[[Any], Any]) -> tuple[Connection, BaseProcess]:
    # spawn: a fork would share the pipes of a running solver
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_worker, args=(work, theirs))
    process.start()
    theirs.close()
    return ours, process


def _serve(
    workers: dict[Connection, BaseProcess], tasks: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    queue = iter(enumerate(tasks))
    at: dict[Connection, int] = {}
    for line in workers:
        _give(line, queue, at)
    while at:
        ready = wait(list(at))
        for line in [line for line in at if line in ready]:
            index = at.pop(line)
            result = _answer(line, index)
            _give(line, queue, at)
            yield index, result


def _give(line: Connection, queue: Iterator[tuple[int, Any]], at: dict[Connection, int]) -> None:
    following = next(queue, None)
    if following is not None:
        at[line] = following[0]
        line.send(following[1])


def _answer(line: Connection, index: int) -> Any:
    try:
        kind, content = line.recv()
    except EOFError as error:
        raise InternalError(
            f"worker: task {index}: expected a result, got the end of the process; it may have run "
            "out of memory: run with fewer jobs"
        ) from error
    if kind == "ok":
        return content
    known = getattr(errors, kind, InternalError)
    raise known(content)


def _stop(workers: dict[Connection, BaseProcess]) -> None:
    for line, process in workers.items():
        line.close()
        process.terminate()
    for process in workers.values():
        process.join(_PATIENCE_S)
        if process.is_alive():
            process.kill()
            process.join()


def _worker(work: Callable[[Any], Any], line: Connection) -> None:
    """Answers tasks until the other end closes. Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            line.send(_outcome(work, line.recv()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(*_: object) -> None:
    """Exit in order, once, so that a running solver is ended too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def _outcome(work: Callable[[Any], Any], task: Any) -> tuple[str, Any]:
    try:
        return "ok", work(task)
    except PoetError as error:
        names = [c.__name__ for c in type(error).__mro__ if hasattr(errors, c.__name__)]
        return names[0], str(error)
    except Exception as error:  # noqa: BLE001 - it is raised again in the other process
        return "InternalError", f"{type(error).__name__}: {error}"
