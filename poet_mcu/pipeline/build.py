"""``build``: plan, check in the interpreter, render C, compile, measure, bundle."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from poet_mcu import resources, toolchain
from poet_mcu.board.load import board_text, buildable, load_board
from poet_mcu.board.schema import Board
from poet_mcu.cnames import comment_text
from poet_mcu.codegen.bundle import BOARD_FILE, digest, new_folder, write_card, write_manifest
from poet_mcu.codegen.model_view import CodeInput, model_view, with_build_id
from poet_mcu.codegen.render import render
from poet_mcu.codegen.views import Banner, ModelView
from poet_mcu.errors import ToolMissing
from poet_mcu.frontend.model_file import read_model
from poet_mcu.ir.placement import used_parts
from poet_mcu.ir.text import graph_text, placement_text, schedule_text
from poet_mcu.pipeline.actions import by_operator, predicted_actions, save_actions
from poet_mcu.pipeline.options import Options, graph_options
from poet_mcu.pipeline.plan import Plan, Progress, plan
from poet_mcu.pipeline.selfcheck import check_program
from poet_mcu.version import __version__

TOOL = f"poet-mcu {__version__}"
GENERATED = ("poet_model.h", "poet_model.c", "poet_schedule.c", "poet_weights.c")
_RUNTIME_FOLDERS = ("kernels", "link", "train")
_STORAGE = ("checkpoint.c", "crc.c", "page_store.c", "status.c")
_DRIVERS = {
    "sd_spi": ("sd_bus.c", "sd_csd.c", "sd_spi.c"),
    "sdmmc": ("sd_csd.c",),
    "semihosting": (),
    "file": (),
}


@dataclass(frozen=True, slots=True)
class Built:
    """What a build left."""

    folder: Path
    plan: Plan
    sizes: toolchain.Sizes
    facts: dict[str, Any]


def _quiet(_: str) -> None:
    """No progress."""


def runtime_sources(board: Board) -> list[str]:
    """The runtime's C files for a board, relative to the folder that holds ``firmware``."""
    root = resources.root()
    firmware = root / "firmware"
    folders = [firmware / name for name in _RUNTIME_FOLDERS]
    folders += [firmware / "port" / name for name in board.port_folders]
    found = [path for folder in folders for path in sorted(folder.glob("*.c"))]
    found += [firmware / "storage" / name for name in (*_STORAGE, *_DRIVERS[board.storage.driver])]
    return [path.relative_to(root).as_posix() for path in found]


def runtime_headers(board: Board) -> list[str]:
    """The headers those files include, relative likewise."""
    root = resources.root()
    firmware = root / "firmware"
    folders = [firmware / "include" / "poet", *(firmware / name for name in _RUNTIME_FOLDERS)]
    folders += [firmware / "storage", *(firmware / "port" / name for name in board.port_folders)]
    found = [path for folder in folders for path in sorted(folder.glob("*.h"))]
    return [path.relative_to(root).as_posix() for path in found]


def _generated(view: ModelView) -> dict[str, str]:
    return {name: render(f"{name}.j2", v=view) for name in GENERATED}


def _code_input(planned: Plan, board: Board) -> CodeInput:
    prepared = planned.prepared
    report = prepared.imported.report
    banner = Banner(
        TOOL, prepared.options.model.name, report.sha256, board.name, prepared.options.summary()
    )
    return CodeInput(
        banner=banner,
        name=prepared.options.model.stem,
        board=board.name,
        train_graph=prepared.train,
        eval_graph=prepared.evaluation,
        train=planned.train.program,
        evaluation=planned.evaluation.program,
        arena_bytes=planned.arena_bytes,
        arena_alignment_bytes=board.arena.alignment_bytes,
        parts=used_parts(planned.budget.parts, planned.arena_bytes),
        region_block=board.storage.region_first_block,
        region_blocks=planned.region_blocks,
        slots=planned.slots,
        default_lr=prepared.options.lr,
        recipe=prepared.options,
        model_hash=bytes.fromhex(report.sha256),
        build_id=bytes(16),
    )


def _with_build_id(code: CodeInput, board: Board) -> tuple[CodeInput, dict[str, str]]:
    """The build id covers every generated and runtime source and the compiler's flags."""
    root = resources.root()
    view = model_view(code)
    parts = {name: text.encode() for name, text in _generated(view).items()}
    for name in (*runtime_sources(board), *runtime_headers(board)):
        parts[name] = (root / name).read_bytes()
    parts["flags"] = " ".join(toolchain.compile_flags(board)).encode()
    build_id = digest(parts)[:16]
    return replace(code, build_id=build_id), _generated(with_build_id(view, build_id))


def build(options: Options, out: Path, progress: Progress = _quiet, *, dump: bool = False) -> Built:
    """Build firmware for ``options`` into the folder ``out``, atomically.

    With ``dump`` the text form of every level goes to ``out/dump``. Raises what ``plan`` raises,
    BoardError for a planning-only board, ToolMissing without a compiler, CheckFailed when the
    linked size exceeds the budget.
    """
    buildable(load_board(options.board))
    planned = plan(options, progress)
    board = planned.prepared.board
    progress("checking the plan in the interpreter")
    peak = check_program(planned.train, options.accumulate)
    check_program(planned.evaluation)
    progress("writing C")
    code, texts = _with_build_id(_code_input(planned, board), board)
    with new_folder(out) as folder:
        _write_sources(folder, board, planned, texts)
        first, count = code.region_block, code.region_blocks
        write_card(folder / "card.img", code.build_id, first, count, code.slots)
        _save_model(options.model, folder / "model.onnx")
        if dump:
            _write_dumps(folder / "dump", planned)
        progress("compiling the firmware")
        sizes, stack = _compile(folder, board, planned)
        progress("compiling the host's twin")
        twin = _compile_twin(folder, board)
        actions = predicted_actions(planned.train, board)
        facts = planned.facts | _size_facts(sizes) | _stack_facts(board, stack) | {
            "interpreter_peak_bytes": peak + planned.facts["peak_bytes"]
            - planned.facts["arena_peak_bytes"],
            "build_id": code.build_id.hex(),
            "host_twin": twin,
            "operators": by_operator(actions),
        }  # fmt: skip
        _write_facts(folder, facts, actions, board)
        write_manifest(folder, _manifest(planned, code))
    return Built(out, planned, sizes, facts)


def _size_facts(sizes: toolchain.Sizes) -> dict[str, Any]:
    return {
        "flash_bytes": sizes.flash_bytes,
        "elf_ram_bytes": sizes.ram_bytes,
        "elf_static_bytes": sizes.static_bytes,
    }


def _stack_facts(board: Board, stack: toolchain.StackUse | None) -> dict[str, Any]:
    """The stack's size, and what of it the code can need at most; None on a host."""
    return {
        "stack_bytes": board.runtime.stack_bytes,
        "stack_worst_bytes": None if stack is None else stack.total_bytes,
        "stack_worst_path": [] if stack is None else list(stack.path),
    }


def _manifest(planned: Plan, code: CodeInput) -> dict[str, Any]:
    options = planned.prepared.options
    return {
        "tool": TOOL,
        "build_id": code.build_id.hex(),
        "model": options.model.name,
        "model_sha256": code.model_hash.hex(),
        "board": planned.prepared.board.name,
        "options": graph_options(options),
    }


def _write_json(path: Path, facts: dict[str, Any]) -> None:
    text = json.dumps(facts, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def _write_facts(
    folder: Path, facts: dict[str, Any], actions: list[dict[str, Any]], board: Board
) -> None:
    """What later verbs read: the plan, the time of its actions, the board."""
    _write_json(folder / "plan.json", facts)
    save_actions(actions, folder)
    (folder / BOARD_FILE).write_text(board_text(board), encoding="utf-8", newline="\n")


def _write_sources(folder: Path, board: Board, planned: Plan, texts: dict[str, str]) -> None:
    source = folder / "src"
    source.mkdir()
    for name, text in texts.items():
        (source / name).write_text(text, encoding="utf-8", newline="\n")
    twin = toolchain.host_twin(board)
    names = {*runtime_sources(board), *runtime_headers(board)}
    names |= {*runtime_sources(twin), *runtime_headers(twin)}
    for name in sorted(names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(resources.root() / name, target)
    script = ""
    if board.kind != "host":
        script = "linker.ld"
        text = render("linker.ld.j2", **linker_fields(board, planned.budget.ram_bytes))
        (folder / script).write_text(text, encoding="utf-8", newline="\n")
    fields = toolchain.makefile_fields(
        board, _c_files(board), ["src", "firmware/include"], tool=TOOL, linker_script=script
    )
    makefile = render("Makefile.j2", **fields)
    (folder / "Makefile").write_text(makefile, encoding="utf-8", newline="\n")


def linker_fields(board: Board, ram_bytes: int) -> dict[str, object]:
    """The fields of templates/linker.ld.j2."""
    apart = board.vectors != board.flash
    return {
        "vectors_origin": f"0x{board.vectors.origin:08x}" if apart else "",
        "vectors_bytes": board.vectors.size_bytes,
        "boot_bytes": board.flash.boot_bytes,
        "flash_origin": f"0x{board.flash.origin:08x}",
        "flash_bytes": board.flash.size_bytes,
        "ram_origin": f"0x{board.sram.origin:08x}",
        "ram_bytes": board.sram_within(ram_bytes),
        "parts": _linker_parts(board, ram_bytes),
        "stack_bytes": board.runtime.stack_bytes,
    }


def _linker_parts(board: Board, ram_bytes: int) -> list[dict[str, object]]:
    """The memory and the section of each part of the arena, as large as the budget lets it be."""
    parts = zip(board.parts_within(ram_bytes), board.arena.parts, strict=False)
    return [
        {
            "region": f"PART{i}", "section": f".arena{i}", "origin": f"0x{known.origin:08x}",
            "nbytes": part.nbytes, "note": comment_text(f"Part of the arena: {part.name}."),
        }
        for i, (part, known) in enumerate(parts, 1)
    ]  # fmt: skip


def _c_files(board: Board) -> list[str]:
    return [f"src/{name}" for name in GENERATED if name.endswith(".c")] + runtime_sources(board)


def _compile(
    folder: Path, board: Board, planned: Plan
) -> tuple[toolchain.Sizes, toolchain.StackUse | None]:
    elf = folder / "firmware.elf"
    script = folder / "linker.ld" if board.kind != "host" else None
    call_graphs: list[str] = []
    toolchain.compile_program(
        board,
        [folder / name for name in _c_files(board)],
        [folder / "src", folder / "firmware" / "include"],
        elf,
        linker_script=script,
        call_graphs=None if board.kind == "host" else call_graphs,
    )
    if board.kind == "host":
        return toolchain.measure(elf), None
    sizes = toolchain.check_elf(elf, board)
    toolchain.check_budget(sizes, planned.budget.ram_bytes, str(elf.name))
    stack = toolchain.check_stack(elf, call_graphs, board)
    toolchain.make_images(board, elf)
    return sizes, stack


def _compile_twin(folder: Path, board: Board) -> bool:
    """The same program for this machine, with dead bytes poisoned; False without a compiler."""
    twin = toolchain.host_twin(board)
    try:
        toolchain.compile_program(
            twin,
            [folder / name for name in _c_files(twin)],
            [folder / "src", folder / "firmware" / "include"],
            folder / "host" / "firmware",
            defines={"POET_POISON": 1},
        )
    except ToolMissing:
        return False
    return True


def _save_model(model: Path, target: Path) -> None:
    """A copy as ONNX with external data inside, so that the folder is self-contained."""
    onnx.save(read_model(model).proto, target)


def _write_dumps(folder: Path, planned: Plan) -> None:
    folder.mkdir()
    for name, step in (("train", planned.train), ("eval", planned.evaluation)):
        texts = (
            ("1_graph", graph_text(step.graph)),
            ("2_schedule", schedule_text(step.schedule, step.graph)),
            ("3_placement", placement_text(step.placement, step.graph)),
        )
        for level, text in texts:
            (folder / f"{name}_{level}.txt").write_text(text, encoding="utf-8", newline="\n")
