"""Compiles and links C for a board, in parallel, and makes the images for flashing."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from poet_mcu.board.schema import Board
from poet_mcu.errors import CheckFailed, InternalError
from poet_mcu.toolchain import flags
from poet_mcu.toolchain.tools import compiler, objcopy
from poet_mcu.toolchain.uf2 import write_uf2

_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")


def compile_program(
    board: Board,
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    out: Path,
    *,
    linker_script: Path | None = None,
    defines: Mapping[str, str | int] | None = None,
    extra_flags: Sequence[str] = (),
    jobs: int = 2,
    call_graphs: list[str] | None = None,
) -> Path:
    """Compile ``sources`` and link them into the ELF ``out``; ``out`` is returned.

    Objects live in a temporary folder. ``defines`` become -Dname=value. ``extra_flags`` go to
    compiler and linker (sanitizers). For an Arm board ``call_graphs`` gets the compiler's graph of
    each file (``stack.py``). Raises ToolMissing, CheckFailed when a memory region of the
    linker script is too small, InternalError with the command and the compiler's text otherwise.
    """
    cc = str(compiler(board))
    common = [cc, *flags.compile_flags(board), *extra_flags]
    if board.kind != "host":
        common.append(flags.CALL_GRAPH)
    common += [f"-I{folder}" for folder in include_dirs]
    common += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="poet-mcu-") as folder:
        objects = [Path(folder) / f"{i}_{source.stem}.o" for i, source in enumerate(sources)]
        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            results = list(pool.map(partial(_compile, common), sources, objects))
        failed = [text for text in results if text]
        if failed:
            raise InternalError("\n".join(failed))
        _link(board, cc, objects, out, linker_script, extra_flags)
        if call_graphs is not None:
            call_graphs += [_graph(path).read_text(encoding="utf-8") for path in objects]
    return out


def _graph(target: Path) -> Path:
    """Where gcc leaves the call graph of an object."""
    return target.with_suffix(".ci")


def _compile(common: Sequence[str], source: Path, target: Path) -> str:
    """Compile one file; '' or the message of the failure.

    With the environment variable POET_MCU_OBJECT_CACHE (a folder) an object is taken from there
    when the same compiler was given the same flags and the same preprocessed text before.
    """
    command = [*common, "-c", str(source), "-o", str(target)]
    folder = os.environ.get("POET_MCU_OBJECT_CACHE")
    if not folder:
        return _run(command)
    text = subprocess.run([*common, "-E", "-P", str(source)], capture_output=True, check=False)
    flags_only = [word for word in common if not word.startswith("-I")]
    key = hashlib.sha256("\0".join([*flags_only, source.name]).encode() + b"\0" + text.stdout)
    kept = Path(folder) / f"{key.hexdigest()}.o"
    # The object comes last into the folder and is looked for first: where it is, all is.
    products = [(target, kept)]
    if flags.CALL_GRAPH in common:
        products.insert(0, (_graph(target), _graph(kept)))
    if text.returncode == 0 and kept.is_file():
        for made, copy in products:
            shutil.copyfile(copy, made)
        return ""
    failure = _run(command)
    if not failure:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for made, copy in products:
            partial_copy = copy.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            shutil.copyfile(made, partial_copy)
            partial_copy.replace(copy)
    return failure


def make_images(board: Board, elf: Path) -> tuple[Path, Path]:
    """``elf`` as raw binary (.bin, from the lowest load address on) and Intel hex (.hex).

    A board whose boot loader takes UF2 files gets one too (.uf2).
    """
    tool = str(objcopy(board))
    images = elf.with_suffix(".bin"), elf.with_suffix(".hex")
    for form, image in zip(("binary", "ihex"), images, strict=True):
        text = _run([tool, "-O", form, str(elf), str(image)])
        if text:
            raise InternalError(text)
    if board.flash_with is not None and board.flash_with.uf2_board:
        write_uf2(elf, elf.with_suffix(".uf2"), board.flash_with.uf2_family)
    return images


def _link(
    board: Board,
    cc: str,
    objects: Sequence[Path],
    out: Path,
    linker_script: Path | None,
    extra_flags: Sequence[str],
) -> None:
    command = [cc, *flags.link_flags(board), *extra_flags]
    if linker_script is not None:
        command += ["-T", str(linker_script)]
    command += [*map(str, objects), *flags.link_libraries(board), "-o", str(out)]
    text = _run(command)
    overflows = _OVERFLOW.findall(text)
    if overflows:
        parts = "; ".join(f"region {name} overflows by {size} bytes" for name, size in overflows)
        advice = (
            "raise --ram"
            if all(name == "RAM" for name, _ in overflows)
            else "choose a smaller model or a board with more flash"
        )
        raise CheckFailed(
            f"{out.name}: expected a program that fits board {board.name}, got one where {parts}; "
            f"{advice}"
        )
    if text:
        raise InternalError(text)


def _run(command: Sequence[str]) -> str:
    """'' when the command succeeds, else a message with the command and what it said."""
    run = subprocess.run(
        list(command), capture_output=True, text=True, errors="replace", check=False
    )
    if run.returncode == 0:
        return ""
    said = (run.stderr or run.stdout).strip()
    return (
        f"{Path(command[0]).name}: expected exit code 0, got {run.returncode}; the command was\n"
        f"  {shlex.join(command)}\nand it said\n{said}"
    )
