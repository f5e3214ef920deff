"""What a board does with a card that fails: docs/faults.md, row by row, over the real SD driver.

Each row runs whole steps over the card model of storage/sd_card_model.c. After the fault the card
is healthy again, the newest checkpoint comes back and the training ends with the undisturbed bits
(faults/card_fault_test.c checks that and prints FAIL otherwise).
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import power_build
import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_CARD = "no SD card answers"
CRC = "CRC error on the card bus"
BUSY = "card stayed busy too long"
READ = "card could not read a block"
WRITE = "card could not write a block"
PAGE = "a page's checksum does not match"
SMALL = "card is smaller than the plan needs"
OK = "ok"
# Blocks of the card: the region begins at 64, the first page at 72, the second slot at 112.
PAGE_BLOCK, SLOT_BLOCK = 72, 112


@dataclass(frozen=True)
class Row:
    """A fault, when it comes, and what is told of it; ``model`` is what the weights are then."""

    when: str
    options: str
    told: str
    model: str
    where: str = "action"
    kind: str = "sdhc"


#: name in docs/faults.md -> row
ROWS = {
    "absent": Row("open", "absent=1", NO_CARD, "unreadable", "outside"),
    "removed in a step": Row("step", "removed=1", NO_CARD, "spoiled"),
    "removed in a checkpoint": Row("checkpoint", "removed=1", NO_CARD, "unreadable", "checkpoint"),
    "removed in a restore": Row("restore", "removed=1", NO_CARD, "unreadable", "checkpoint"),
    "line held low": Row("step", "removed=0", BUSY, "spoiled"),
    "write-protected, step": Row("step", "write_protected=1", WRITE, "spoiled"),
    "write-protected, checkpoint": Row(
        "checkpoint", "write_protected=1", WRITE, "whole", "checkpoint"
    ),
    "CRC error once, read": Row("step", "damaged_blocks=1", OK, "whole"),
    "CRC error always, read": Row("step", "damaged_blocks=100000", CRC, "spoiled"),
    "CRC error once, write": Row("step", "refused_blocks=1", OK, "whole"),
    "CRC error always, write": Row("step", "refused_blocks=100000", CRC, "spoiled"),
    "CRC error always, checkpoint": Row(
        "checkpoint", "refused_blocks=100000", CRC, "whole", "checkpoint"
    ),
    "stuck transfer": Row("step", "stuck=1", "timed out", "spoiled"),
    "busy for 0.5 s": Row("step", "busy_us=500000", OK, "whole"),
    "busy for 4 s, step": Row("step", "busy_us=4000000", BUSY, "spoiled"),
    "busy for 4 s, checkpoint": Row(
        "checkpoint", "busy_us=4000000", BUSY, "unreadable", "checkpoint"
    ),
    "write error in a page": Row("step", f"write_error_at={PAGE_BLOCK}", WRITE, "spoiled"),
    "error while programming a page": Row(
        "step", f"program_error_at={PAGE_BLOCK}", WRITE, "spoiled"
    ),
    "write error in a checkpoint": Row(
        "checkpoint", f"write_error_at={SLOT_BLOCK + 2}", WRITE, "whole", "checkpoint"
    ),
    "read error in a page": Row("step", f"read_error_at={PAGE_BLOCK}", READ, "spoiled"),
    "read error in the only checkpoint": Row(
        "restore", f"read_error_at={SLOT_BLOCK - 15}", READ, "whole", "checkpoint"
    ),
    "bit rot in a page": Row("step", f"rot_at={PAGE_BLOCK}", PAGE, "spoiled"),
    "bit rot in a checkpoint's data": Row(
        "checkpoint", f"rot_at={SLOT_BLOCK + 1}", WRITE, "whole", "checkpoint"
    ),
    "bit rot in a checkpoint's header": Row(
        "checkpoint", f"rot_at={SLOT_BLOCK}", WRITE, "whole", "checkpoint"
    ),
    "garbage before the response": Row("step", "garbage=7", OK, "whole"),
    **{
        f"power-up in the middle: {what}": Row("open", f"start={start}", OK, "whole")
        for start, what in enumerate(
            ("read", "reads", "write", "writes", "between writes", "programming"), 1
        )
    },
    **{
        kind.upper(): Row("step", "garbage=0", OK, "whole", kind=kind)
        for kind in ("sdsc1", "sdsc", "sdhc", "sdxc")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    planned = power_build.generate(
        folder, (17, 9, 3), optimizer="adam", lr=0.01, home_parameters="card"
    )
    first = planned.prepared.board.storage.region_first_block
    assert first + planned.train.program.pages[0].first_block == PAGE_BLOCK
    assert first + planned.slots.first_block + planned.slots.blocks == SLOT_BLOCK
    return power_build.compile_faults(folder)


def run(program: Path, when: str, kind: str, options: str) -> dict[str, str]:
    blocks = "268435456" if kind == "sdxc" else "4096"
    command = [str(program), when, kind, blocks, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", ROWS)
def test_row(program: Path, name: str) -> None:
    row = ROWS[name]
    found = run(program, row.when, row.kind, row.options)
    assert (found["told"], found["model"]) == (row.told, row.model)
    assert found["end"] == "same"
    # Bytes sent to a card that is busy are the driver's way to bring such a card back.
    assert found["violations"] == "0" or row.told == BUSY or row.when == "open"
    if row.told != OK:
        assert found["where"] == row.where
        opening = row.where == "outside" or name == "removed in a restore"
        assert found["block"] == ("0" if opening else "1")
    if row.when == "open":
        assert found["card"] == row.told


def test_removed_at_any_byte_of_two_steps_and_a_checkpoint(program: Path) -> None:
    found = {k: int(v) for k, v in run(program, "removal", "sdhc", "").items()}
    assert found["points"] == found["told"] == 200
    assert 50 < found["spoiled"] < 200


@pytest.mark.parametrize("real_blocks", [1, 16, 32, 40, 63])
def test_fake_capacity_is_found_when_the_card_is_prepared(program: Path, real_blocks: int) -> None:
    found = run(program, "format", "sdhc", f"real_blocks={real_blocks}")
    assert found == {"told": SMALL}


def test_write_protected_card_cannot_be_prepared(program: Path) -> None:
    assert run(program, "format", "sdhc", "write_protected=1") == {"told": WRITE}


def test_the_document_has_every_row() -> None:
    text = (ROOT / "docs" / "faults.md").read_text("utf-8")
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert set(ROWS) <= set(rows)
    for name, row in ROWS.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert f"| {row.told} |" in line, name
        assert f"| {row.model} |" in line, name
