"""Board files: the shipped ones are sound; wrong ones are refused with all problems at once."""

import re
import tomllib

import pytest

from poet_mcu import resources
from poet_mcu.board import list_boards, load_board
from poet_mcu.board.schema import Board
from poet_mcu.board.tables import KERNEL_FAMILIES, OPTIONAL_FAMILIES
from poet_mcu.errors import BoardError

SD_BOARDS = ("qemu-lm3s6965evb", "qemu-m4-sd", "qemu-m7-sd", "qemu-m55-sd")
LARGE_BOARDS = ("qemu-mps2-an500", "qemu-mps2-an386", "qemu-mps3-an547")


def write(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refuse(path, *patterns):
    with pytest.raises(BoardError) as caught:
        load_board(path)
    for pattern in patterns:
        assert re.search(pattern, str(caught.value)), str(caught.value)
    return str(caught.value)


def test_the_boards_we_run_are_there():
    assert {*SD_BOARDS, *LARGE_BOARDS, "host"} <= set(list_boards())


def test_vectors_stand_at_the_start_of_flash_unless_said():
    assert load_board("qemu-m7-sd").vectors == load_board("qemu-m7-sd").flash
    apart = load_board("qemu-mps3-an547")
    assert (apart.vectors.origin, apart.flash.origin) == (0, 0x0100_0000)


@pytest.mark.parametrize("name", list_boards())
def test_every_board_loads_and_is_called_as_its_file(name):
    board = load_board(name)
    assert board.name == name
    assert set(KERNEL_FAMILIES) <= set(board.cost) <= {*KERNEL_FAMILIES, *OPTIONAL_FAMILIES}
    for folder in board.port_folders:
        assert (resources.root() / "firmware" / "port" / folder).is_dir()
    assert board.sram.size_bytes > board.runtime.stack_bytes + board.runtime.static_bytes


@pytest.mark.parametrize("name", SD_BOARDS)
def test_lm3s6965_machine(name):
    board = load_board(name)
    assert (board.flash.origin, board.flash.size_bytes) == (0, 256 * 1024)
    assert (board.sram.origin, board.sram.size_bytes) == (0x20000000, 64 * 1024)
    assert board.port_folders == ("lm3s6965evb", "primecell", "common")
    assert board.storage.driver == "sd_spi"
    assert not board.storage.overlap
    assert board.emulator is not None
    assert board.emulator.machine == "lm3s6965evb"


def test_aliases_and_spelling():
    assert load_board("lm3s6965evb").name == "qemu-lm3s6965evb"
    assert load_board("QEMU_M7_SD").name == "qemu-m7-sd"
    assert load_board(resources.boards() / "host.toml").name == "host"


def test_aliases_are_unambiguous():
    names = [n for b in list_boards() for n in (b, *load_board(b).aliases)]
    assert len(names) == len(set(names))


def test_unknown_board_names_the_nearest():
    with pytest.raises(BoardError, match=r"board 'qemu-m7-sdd': expected one of .*did you mean"):
        load_board("qemu-m7-sdd")
    with pytest.raises(BoardError, match=r"unknown board; write a board file"):
        load_board("zzzzzz")


def test_missing_file_and_broken_toml(tmp_path):
    refuse(tmp_path / "no.toml", r"no\.toml: expected a readable board file, got No such file")
    refuse(write(tmp_path, "name = \nx = 1"), r"mine\.toml: expected TOML, got .*line 1")
    (tmp_path / "bin.toml").write_bytes(b"\xff\xfe")
    refuse(tmp_path / "bin.toml", r"bin\.toml: expected TOML")


def test_all_problems_come_at_once(tmp_path):
    text = refuse(
        write(
            tmp_path,
            """
extends = "host"
kind = "hardwar"
[memory.sram]
size_bytes = 320
sise = 3
source = "a document"
[power]
active_w = 250
sd_read_w = "3"
source = "a document"
[core]
clock_hz = true
source = "a document"
""",
        ),
        r"mine\.toml: memory\.sram\.size_bytes: expected 1024\.\.4294967296, got 320; did you mean "
        r"327680 \(320 KiB\)\?",
        r"power\.active_w: expected 0\.\.50, got 250; did you mean 0\.25 \(250 milli\)\?",
        r"power\.sd_read_w: expected a valid number, got '3'",
        r"memory\.sram\.sise: expected one of boot_bytes, origin, parts, .*, got 'sise'",
        r"kind: expected 'emulated', 'host', 'hardware' or 'planning', got 'hardwar'",
        r"core\.clock_hz: expected a valid integer, got True",
    )
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "1e308", "-1e308", "inf", "nan"])
@pytest.mark.parametrize("key", ["memory.sram.size_bytes", "power.active_w", "storage.page_bytes"])
def test_numbers_that_no_float_holds(key, number, tmp_path):
    table, name = key.rsplit(".", 1)
    text = f'extends = "host"\n[{table}]\n{name} = {number}\nsource = "a document"\n'
    refuse(write(tmp_path, text), rf"mine\.toml: {table}\.{name}: expected ")


def test_unknown_tables_and_rows_are_errors(tmp_path):
    refuse(write(tmp_path, 'extends = "host"\n[sotrage]\nx = 1\n'), "did you mean 'storage'")
    refuse(write(tmp_path, 'extends = "host"\n[memory.srma]\norigin = 0\n'), "did you mean 'sram'")
    refuse(
        write(tmp_path, 'extends = "host"\n[cost.dense_fdw]\nx = 0\n'), "did you mean 'dense_fwd'"
    )


def test_empty_file_lists_what_is_missing(tmp_path):
    text = refuse(write(tmp_path, ""), r"mine\.toml: core: expected this key, got none")
    assert "mine.toml: storage: expected this key" in text
    assert "mine.toml: schema: expected this key" in text


def test_replaced_numbers_need_their_own_source(tmp_path):
    refuse(
        write(tmp_path, 'extends = "host"\n[power]\nactive_w = 2\n'),
        r"power\.source: expected this key beside the keys that are replaced",
    )


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ('extends = "hots"', r"extends: expected a file below .*did you mean 'host'"),
        ("extends = 3", r"extends: expected a name such as 'soc/lm3s6965' or a list"),
        ('extends = "mine"', r"extends: expected no circle"),
    ],
)
def test_wrong_parents(tmp_path, text, pattern):
    refuse(write(tmp_path, text), pattern)


OVERLAP = """
extends = "qemu-m7-sd"
[memory.sram]
origin = 0x1000
source = "a document"
"""
SMALL = """
extends = "qemu-m7-sd"
[runtime]
stack_bytes = 65_536
source = "a document"
"""
ODD = """
extends = "qemu-m7-sd"
[arena]
alignment_bytes = 24
source = "a document"
"""
FUSED_SOFT = """
extends = "qemu-lm3s6965evb"
[core]
fma = "fused"
source = "a document"
"""
VECTORS_KEEP = """
extends = "qemu-m55-sd"
[core]
flush_subnormals = false
source = "a document"
"""
SCALARS_FLUSH = """
extends = "qemu-m55-sd"
[core]
cpu = "cortex-m55+nomve"
source = "a document"
"""
NO_EMULATOR = 'extends = "qemu-m7-sd"\nkind = "hardware"\n'


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (OVERLAP, r"memory\.sram\.origin: expected a range apart from memory\.flash, got overlap"),
        (SMALL, r"runtime: expected stack_bytes \+ static_bytes below memory\.sram\.size_bytes"),
        (ODD, r"arena\.alignment_bytes: expected a power of two, got 24"),
        (FUSED_SOFT, r"core\.fma: expected 'separate' without an FPU, got 'fused'"),
        (VECTORS_KEEP, r"core\.flush_subnormals: expected true with 'cortex-m55', whose vectors"),
        (SCALARS_FLUSH, r"core\.flush_subnormals: expected false with 'cortex-m55\+nomve'"),
        (NO_EMULATOR, r"emulator.kind: expected none or registers with kind 'hardware', got qemu"),
    ],
)
def test_contradictions(tmp_path, text, pattern):
    refuse(write(tmp_path, text), pattern)


def test_a_user_board_overrides_only_what_it_says(tmp_path):
    path = write(
        tmp_path,
        'extends = "qemu-m7-sd"\nname = "mine"\n[memory.sram]\nsize_bytes = 32768\n'
        'source = "a document"\n',
    )
    mine, parent = load_board(path), load_board("qemu-m7-sd")
    assert mine.sram.size_bytes == 32768
    assert mine.sram.origin == parent.sram.origin
    assert mine.cost == parent.cost


def test_boards_are_frozen():
    board = load_board("host")
    with pytest.raises(ValueError, match="frozen"):
        board.name = "x"


UNITS = (
    "_bytes",
    "_s",
    "_w",
    "_hz",
    "_bytes_per_s",
    "cycles_per_mac",
    "cycles_per_element",
    "cycles_per_transcendental",
    "cycles_per_call",
    "bytes_per_cycle",
)
#: numbers without a unit: an address, a block number, a version, an id
UNITLESS = {"origin", "region_first_block", "schema", "uf2_family"}


def board_files():
    return sorted(resources.boards().rglob("*.toml"))


def tables(tree, where=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"{where}.{key}".strip("."), value
            yield from tables(value, f"{where}.{key}")
        for entry in value if isinstance(value, list) else ():
            if isinstance(entry, dict):
                yield f"{where}.{key}".strip("."), entry


@pytest.mark.parametrize("path", board_files(), ids=lambda p: p.stem)
def test_numbers_have_units_and_tables_have_sources(path):
    tree = tomllib.loads(path.read_text(encoding="utf-8"))
    for where, table in [("", tree), *tables(tree)]:
        numbers = [k for k, v in table.items() if type(v) in (int, float)]
        for key in numbers:
            assert key.endswith(UNITS) or key in UNITLESS, f"{path}: {where}.{key}"
        if where and numbers:
            assert len(table.get("source", "")) >= 8, f"{path}: {where}: no source"


def test_readme_names_every_key():
    text = (resources.boards() / "README.md").read_text(encoding="utf-8")
    for model in (Board, *(f.annotation for f in Board.model_fields.values())):
        for key, field in getattr(model, "model_fields", {}).items():
            assert (
                f"`{field.alias or key}`" in text
                or f"[{key}" in text
                or key
                in {
                    "source",
                    "estimated",
                    "memory",
                    "write_throughput_bytes_per_s",
                }
            ), key
