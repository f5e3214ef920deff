"""templates/Makefile.j2: a generated folder can be built again with make, with the same result."""

import shutil
import subprocess

import jinja2
import pytest

from poet_mcu import resources
from poet_mcu.board import load_board
from poet_mcu.errors import InternalError
from poet_mcu.toolchain import check_elf, compile_program, make_images, makefile_fields

STARTUP = """
#include <stdint.h>
extern uint32_t stack_top[];
void reset(void);
typedef struct { uint32_t *stack; void (*reset)(void); } vectors;
__attribute__((section(".vectors"), used)) static const vectors table = {stack_top, reset};
void reset(void)
{
    for (;;) {
    }
}
"""
LINKER = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 256K
         RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 64K }
ENTRY(reset)
stack_top = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS { .text : { KEEP(*(.vectors)) *(.text*) } > FLASH }
"""


def render(fields, **options):
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates()),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="%%",
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - it renders make, not HTML
        **options,
    )
    return environment.get_template("Makefile.j2").render(fields)


def make(folder, *targets):
    command = ["make", "-s", "-C", str(folder), *targets]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("trim", [True, False])
def test_make_gives_the_same_images(trim, tmp_path):
    board = load_board("qemu-m7-sd")
    source = tmp_path / "firmware" / "port" / "startup.c"
    source.parent.mkdir(parents=True)
    source.write_text(STARTUP, encoding="ascii")
    (tmp_path / "linker.ld").write_text(LINKER, encoding="ascii")
    fields = makefile_fields(
        board,
        ["firmware/port/startup.c"],
        ["src", "firmware"],
        tool="poet-mcu 0",
        linker_script="linker.ld",
        defines={"POET_X": 1},
    )
    text = render(fields, trim_blocks=trim)
    (tmp_path / "Makefile").write_text(text, encoding="ascii")
    done = make(tmp_path)
    assert done.returncode == 0, done.stderr
    elf = tmp_path / "firmware.elf"
    check_elf(elf, board)
    again = compile_program(
        board, [source], [], tmp_path / "own" / "firmware.elf", linker_script=tmp_path / "linker.ld"
    )
    for image in make_images(board, again):
        assert image.read_bytes() == (tmp_path / image.name).read_bytes()
    assert make(tmp_path, "-q").returncode == 0
    assert make(tmp_path, "clean").returncode == 0
    assert not elf.exists()
    assert source.exists()


def test_host_folder_builds_a_program(tmp_path):
    (tmp_path / "main.c").write_text("int main(void) { return EXTRA; }\n", encoding="ascii")
    fields = makefile_fields(
        load_board("host"), ["main.c"], ["."], tool="poet-mcu 0", defines={"EXTRA": 3}
    )
    (tmp_path / "Makefile").write_text(render(fields), encoding="ascii")
    done = make(tmp_path)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(tmp_path / "firmware.elf")], check=False).returncode == 3
    assert shutil.which("cc")


def test_header_names_board_and_tool():
    fields = makefile_fields(load_board("qemu-m4-sd"), ["a.c"], [], tool="poet-mcu 1.2")
    text = render(fields)
    assert "Made by poet-mcu 1.2 for board qemu-m4-sd." in text
    assert str(resources.root()) not in text


@pytest.mark.parametrize("path", ["a b.c", "$(x).c", "a#.c"])
def test_paths_that_make_would_expand_are_refused(path):
    with pytest.raises(InternalError, match="expected a path without blanks"):
        makefile_fields(load_board("host"), [path], [], tool="x")
