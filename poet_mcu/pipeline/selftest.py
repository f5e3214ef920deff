"""The self-test firmware of a board: built like a model's, run like one, with cases for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from poet_mcu import resources, toolchain
from poet_mcu.bench.case import Case
from poet_mcu.bench.select import board_cases
from poet_mcu.bench.table import calls, rows
from poet_mcu.board.load import board_text, buildable
from poet_mcu.board.schema import Board
from poet_mcu.cnames import c_string, comment_text
from poet_mcu.codegen.bundle import BOARD_FILE, digest, new_folder, write_blank_card, write_manifest
from poet_mcu.codegen.render import render
from poet_mcu.codegen.spelling import c_bytes
from poet_mcu.codegen.views import SelfTestView
from poet_mcu.pipeline.build import TOOL, linker_fields, runtime_headers, runtime_sources
from poet_mcu.pipeline.plan import Progress
from poet_mcu.pipeline.target import BuildFolder

_REPLY = "firmware/train/reply.c"
_NOT_NEEDED = ("checkpoint.c", "page_store.c")


@dataclass(frozen=True, slots=True)
class SelfTestBuild:
    """The folder, and the cases by their numbers on the board."""

    folder: BuildFolder
    cases: tuple[Case, ...]
    arena_bytes: int

    @property
    def tested_bytes(self) -> int:
        """The arena and all RAM beside it."""
        return self.arena_bytes + sum(p.size_bytes for p in self.folder.board.arena.parts)


def selftest_sources(board: Board) -> list[str]:
    """The C files of the firmware beside the generated one, relative to the root."""
    kept = [
        name
        for name in runtime_sources(board)
        if not name.startswith("firmware/train/") and not name.endswith(_NOT_NEEDED)
    ]
    own = sorted((resources.firmware() / "selftest").glob("*.c"))
    return [*kept, _REPLY, *(path.relative_to(resources.root()).as_posix() for path in own)]


def arena_of(board: Board) -> int:
    """All RAM but stack and statics, in whole slots."""
    taken = board.runtime.reserved_bytes
    slot = max(64, board.arena.alignment_bytes)
    return (board.sram.size_bytes - taken) // slot * slot


def _part_rows(board: Board) -> tuple[str, ...]:
    """Initializers of poet_ram_part, numbered from 1 on as ``board.ram_parts`` has them."""
    inside = len(board.sram.parts)
    return tuple(
        f"{{0x{part.origin:08x}u, {part.size_bytes}u, {int(i < inside)}u}}, "
        f"/* {comment_text(part.name)} */"
        for i, part in enumerate(board.ram_parts)
    )


def _hashed(board: Board, text: str) -> bytes:
    headers = sorted((resources.firmware() / "selftest").glob("*.h"))
    names = [*selftest_sources(board), *runtime_headers(board)]
    names += [path.relative_to(resources.root()).as_posix() for path in headers]
    parts = {name: (resources.root() / name).read_bytes() for name in names}
    parts["cases"] = text.encode()
    parts["flags"] = " ".join(toolchain.compile_flags(board)).encode()
    return digest(parts)[:16]


def _text(view: SelfTestView, build_id: bytes) -> str:
    field = c_bytes(".build_id = ", build_id, ",", 4)
    return render("poet_selftest.c.j2", v=replace(view, build_id_field=field))


def build_selftest(
    board: Board, out: Path, progress: Progress = lambda _: None, *, only: Sequence[str] = ()
) -> SelfTestBuild:
    """Build the self-test firmware of ``board``, and its twin for this machine, into ``out``.

    ``only``: names of the cases to take; default all that ``board_cases`` gives. Raises BoardError
    for a board that no firmware is for, ToolMissing, CheckFailed when it does not fit the flash.
    """
    arena = arena_of(buildable(board))
    cases = tuple(case for case in board_cases(arena) if not only or case.name in only)
    view = SelfTestView(
        TOOL, c_string(board.name), "", arena, board.arena.alignment_bytes, _part_rows(board),
        tuple(calls(cases, "fast")), tuple(rows(cases)),
    )  # fmt: skip
    build_id = _hashed(board, _text(view, bytes(16)))
    with new_folder(out) as folder:
        (folder / "src").mkdir()
        generated = folder / "src" / "poet_selftest.c"
        generated.write_text(_text(view, build_id), encoding="utf-8", newline="\n")
        progress("compiling the self-test firmware")
        _compile(board, folder, generated)
        write_blank_card(folder / "card.img")
        (folder / BOARD_FILE).write_text(board_text(board), encoding="utf-8", newline="\n")
        facts = {"tool": TOOL, "build_id": build_id.hex(), "model": "self-test"}
        facts["board"] = board.name
        write_manifest(folder, facts)
    return SelfTestBuild(BuildFolder(out, facts, {}, board), cases, arena)


def _compile(board: Board, folder: Path, generated: Path) -> None:
    root = resources.root()
    twin, elf = toolchain.host_twin(board), folder / "firmware.elf"
    include = [root / "firmware", root / "firmware" / "include"]
    for target, out in ((board, elf), (twin, folder / "host" / "firmware")):
        script = None
        if target.kind != "host":
            script = folder / "linker.ld"
            text = render("linker.ld.j2", **linker_fields(board, board.sram.size_bytes))
            script.write_text(text, encoding="utf-8", newline="\n")
        sources = [generated, *(root / name for name in selftest_sources(target))]
        toolchain.compile_program(target, sources, include, out, linker_script=script)
    if board.kind != "host":
        toolchain.check_elf(elf, board)
        toolchain.make_images(board, elf)
