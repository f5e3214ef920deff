"""The computed stack: read right, complete, refused where it cannot be known or is too small."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from poet_mcu import resources, toolchain
from poet_mcu.board.load import load_board
from poet_mcu.board.schema import Board
from poet_mcu.codegen.render import render
from poet_mcu.errors import CheckFailed, InternalError
from poet_mcu.pipeline.build import linker_fields, runtime_sources
from poet_mcu.toolchain import flags
from poet_mcu.toolchain.build import _compile
from poet_mcu.toolchain.callgraph import Function, add_library, join_pointers, read_graphs
from poet_mcu.toolchain.pointers import ANYWHERE, SAME_FILE
from poet_mcu.toolchain.stack import check_stack, stack_use

ROOT = resources.root()
#: one board for each core and each port
BOARDS = (
    "qemu-m0-sd",
    "rpi-pico",
    "qemu-lm3s6965evb",
    "qemu-m4-sd",
    "qemu-m55-sd",
    "qemu-mps2-an500",
    "stm32f746g-disco",
)
_ABSOLUTE = 2  # R_ARM_ABS32, ELF for the Arm Architecture 5.6.1
MAIN = """
#include "poet/port.h"
int main(void);
_Noreturn void poet_port_stop(void);
volatile int sink;
__attribute__((noinline)) static void inner(int n) { volatile char a[200]; a[n] = 1; sink = a[n]; }
__attribute__((noinline)) static void other(int n) { sink = n; }
typedef void leaf(int);
extern leaf *const table[2];
leaf *const table[2] = {inner, other};
int main(void) { BODY return sink; }
void poet_port_putc(uint8_t byte) { sink = byte; }
void poet_port_flush(void) { sink = 0; }
uint64_t poet_port_cycles(void) { return 0u; }
_Noreturn void poet_port_stop(void) { for (;;) { sink = 1; } }
"""


def graph(*lines: str, title: str = "a.c") -> str:
    return "\n".join([f'graph: {{ title: "{title}"', *lines, "}"])


def function(name: str, size: str) -> str:
    return f'node: {{ title: "{name}" label: "{name}\\na.c:1:1\\n{size}" }}'


def call(source: str, target: str, place: str = "a.c:3:1") -> str:
    return f'edge: {{ sourcename: "{source}" targetname: "{target}" label: "{place}" }}'


def test_graphs_are_read() -> None:
    found = read_graphs(
        [
            graph(
                function("f", "24 bytes (static)"),
                function("g", "8 bytes (dynamic,bounded)"),
                'node: { title: "ext" label: "ext\\na.c:1:1" shape : ellipse }',
                call("f", "g"),
                call("f", "ext"),
                'edge: { sourcename: "g" targetname: "__aeabi_fadd" }',
                call("g", "__indirect_call", "/some where/b.h:7:2"),
            )
        ]
    )
    assert found == {
        "f": Function("f", "a.c", 24, {"g", "ext"}),
        "g": Function("g", "a.c", 8, {"__aeabi_fadd"}, {"b.h"}),
    }


def test_a_frame_that_grows_is_refused() -> None:
    with pytest.raises(InternalError, match=r"a\.c: f: expected a stack frame of fixed size"):
        read_graphs([graph(function("f", "24 bytes (dynamic)"))])


def test_a_pointer_in_an_unlisted_file_is_refused() -> None:
    found = read_graphs(
        [graph(function("f", "8 bytes (static)"), call("f", "__indirect_call", "new.c:1:1"))]
    )
    with pytest.raises(InternalError, match=r"new\.c: f: expected calls through pointers in"):
        join_pointers(found, ("f",))


LIBRARY = """
00000100 <first>:
     100:\tpush\t{r4, r5, lr}
     102:\tvpush\t{d8-d9}
     106:\tsub\tsp, #20
     108:\tstr.w\tip, [sp, #-4]!
     10c:\tstmdb\tsp!, {r0-r3}
     110:\tbl\t200 <second>
     114:\tcmp\tr0, #0
     116:\tnop
00000118 <next>:
     118:\tbx\tlr
00000200 <second>:
     200:\tb.w\t100 <first+0x4>
     204:\t.word\t0x00000101
"""


def test_library_functions_are_read_from_the_disassembly() -> None:
    functions = {"mine": Function("mine", "a.c", 8, {"alias"})}
    add_library(
        functions, LIBRARY, {"alias": 0x101, "second": 0x201, "next": 0x119, "first": 0x101}
    )
    assert functions["alias"] == Function("alias", "", 12 + 16 + 20 + 4 + 16, {"second", "next"})
    assert functions["second"].calls == {"first"}
    assert functions["next"].frame_bytes == 0


def test_a_target_is_known_by_its_address() -> None:
    """A linker script's number may be nearer to it than the function, see linker.ld.j2."""
    near = LIBRARY.replace("200 <second>\n     114", "200 <poet_ld_arena_bytes+0x24>\n     114")
    near = near.replace("100 <first+0x4>", "104 <poet_ld_stack_bytes>")
    assert near.count("poet_ld") == 2
    functions = {"mine": Function("mine", "a.c", 8, {"first"})}
    symbols = {"second": 0x201, "next": 0x119, "first": 0x101, "poet_ld_arena_bytes": 0x1DC}
    add_library(functions, near, symbols)
    assert functions["first"].calls == {"second", "next"}
    assert functions["second"].calls == {"first"}
    assert "poet_ld_arena_bytes" not in functions


@pytest.mark.parametrize("line", ["blx\tr3", "bx\tr2", "sub.w\tsp, sp, r2"])
def test_a_library_function_that_cannot_be_known_is_refused(line: str) -> None:
    functions = {"mine": Function("mine", "a.c", 8, {"odd"})}
    with pytest.raises(InternalError, match="odd: expected library code"):
        add_library(functions, f"00000100 <odd>:\n     100:\t{line}\n", {"odd": 0x101})


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


def compiled(board: Board, folder: Path) -> list[Path]:
    """An object of every runtime source of a board; the call graph lies beside each."""
    common = [str(toolchain.compiler(board)), *flags.compile_flags(board), flags.CALL_GRAPH]
    common.append(f"-I{ROOT / 'firmware' / 'include'}")
    objects = []
    for source in runtime_sources(board):
        objects.append(folder / f"{board.name}-{source.replace('/', '_')}.o")
        assert _compile(common, ROOT / source, objects[-1]) == ""
    return objects


def taken(path: Path, functions: dict[str, Function]) -> set[str]:
    """Functions whose address stands in a table, or in code that does not call them itself."""
    found = set()
    with path.open("rb") as file:
        parsed = ELFFile(file)
        symbols = parsed.get_section_by_name(".symtab")
        for section in parsed.iter_sections():
            if section["sh_type"] != "SHT_REL":
                continue
            home = parsed.get_section(section["sh_info"]).name
            caller = home.removeprefix(".text.")
            called = {
                functions[key].name
                for function in functions.values()
                if function.name == caller
                for key in function.calls & functions.keys()
            }
            for relocation in section.iter_relocations():
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                is_function = symbol["st_info"]["type"] == "STT_FUNC"
                if relocation["r_info_type"] == _ABSOLUTE and is_function and home != ".vectors":
                    found |= {symbol.name} - called
    return found


@pytest.mark.parametrize("name", BOARDS)
def test_every_function_that_a_pointer_may_mean_is_listed(name: str, scratch: Path) -> None:
    objects = compiled(load_board(name), scratch)
    functions = read_graphs(path.with_suffix(".ci").read_text("utf-8") for path in objects)
    places = {place for f in functions.values() for place in f.pointers}
    assert places <= {*ANYWHERE, *SAME_FILE}
    patterns = [p for table in (ANYWHERE, SAME_FILE) for each in table.values() for p in each]
    names = set().union(*(taken(path, functions) for path in objects))
    assert len(names) > 20  # handlers, device, blocks: the search finds what is there
    # The interrupts' vectors are read from the program; the fault's report begins its own stack.
    expected = names - {"poet_cortex_m_report", "poet_stm32f7_interrupt"}
    assert {n for n in expected if not any(fnmatchcase(n, p) for p in patterns)} == set()


def program(folder: Path, body: str, board: Board) -> tuple[Path, list[str]]:
    source = folder / "main.c"
    source.write_text(MAIN.replace("BODY", body))
    script = folder / "linker.ld"
    script.write_text(render("linker.ld.j2", **linker_fields(board, board.sram.size_bytes)))
    common = ROOT / "firmware" / "port" / "common"
    graphs: list[str] = []
    elf = toolchain.compile_program(
        board, [source, *sorted(common.glob("*.c"))], [ROOT / "firmware" / "include"],
        folder / "firmware.elf", linker_script=script, call_graphs=graphs,
    )  # fmt: skip
    return elf, graphs


def test_a_program_is_added_up(tmp_path: Path) -> None:
    board = load_board("qemu-m7-sd")
    elf, graphs = program(tmp_path, "inner(3);", board)
    found = stack_use(elf, graphs, board)
    frames = [int(step.split()[1]) for step in found.path]
    assert [step.split()[0] for step in found.path] == ["poet_cortex_m_reset", "main", "inner"]
    assert found.main_bytes == sum(frames)
    assert frames[-1] >= 200
    assert found.interrupt_bytes >= 104 + 4  # the frame with FPU registers, and its alignment
    assert found.total_bytes == found.main_bytes + found.interrupt_bytes


def test_too_small_a_stack_fails_and_names_the_path(tmp_path: Path) -> None:
    board = load_board("qemu-m7-sd")
    elf, graphs = program(tmp_path, "inner(3);", board)
    total = stack_use(elf, graphs, board).total_bytes
    fits, small = (
        board.model_copy(update={"runtime": board.runtime.model_copy(update={"stack_bytes": n})})
        for n in (total, total - 1)
    )
    assert check_stack(elf, graphs, fits) == stack_use(elf, graphs, board)
    message = rf"stack_bytes {total - 1} of board qemu-m7-sd, got {total} .* inner \d+\); raise"
    with pytest.raises(CheckFailed, match=message):
        check_stack(elf, graphs, small)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("inner(1); sink = sink ? main() + 1 : 0;", "expected no recursion, got main > main"),
        ("table[sink & 1](3);", r"main\.c: main: expected calls through pointers in listed files"),
    ],
)
def test_what_makes_the_depth_unknowable_is_refused(
    tmp_path: Path, body: str, message: str
) -> None:
    board = load_board("qemu-m7-sd")
    elf, graphs = program(tmp_path, body, board)
    with pytest.raises(InternalError, match=message):
        stack_use(elf, graphs, board)
