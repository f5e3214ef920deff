"""The fields of templates/Makefile.j2: the same flags that ``compile_program`` uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poet_mcu.board.schema import Board
from poet_mcu.errors import InternalError
from poet_mcu.toolchain import flags


def makefile_fields(
    board: Board,
    sources: Sequence[str],
    include_dirs: Sequence[str],
    *,
    tool: str,
    linker_script: str = "",
    defines: Mapping[str, str | int] | None = None,
) -> dict[str, object]:
    """Every field of the template. Paths are relative to the generated folder.

    ``tool`` is the name and version for the header. Raises InternalError for a path that make
    would split or expand.
    """
    for path in (*sources, *include_dirs, linker_script):
        if any(char in path for char in " \t$#:%\\"):
            raise InternalError(f"Makefile: expected a path without blanks or $#:%, got '{path}'")
    host = board.kind == "host"
    return {
        "tool": tool,
        "board": board.name,
        "cc": "cc" if host else "arm-none-eabi-gcc",
        "objcopy": "" if host else "arm-none-eabi-objcopy",
        "compile_flags": flags.compile_flags(board),
        "include_dirs": list(include_dirs),
        "defines": [f"{name}={value}" for name, value in (defines or {}).items()],
        "link_flags": flags.link_flags(board),
        "libraries": flags.link_libraries(board),
        "sources": list(sources),
        "linker_script": linker_script,
    }
