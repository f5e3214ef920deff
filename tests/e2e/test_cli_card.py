"""``card``, ``train --resume`` and ``validate --checkpoint-every`` on the command line."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

STEPS = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("d") / "d.npz"
    x = rng.normal(size=(STEPS, 6)).astype(np.float32)
    np.savez(path, x=x, y=rng.integers(0, 4, STEPS).astype(np.int32))
    return path


@pytest.fixture(scope="module")
def host_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from poet_mcu.cli import main  # noqa: PLC0415 - as the command line has it

    folder = tmp_path_factory.mktemp("hb")
    path = models.save(models.mlp("N"), folder / "mlp.onnx")
    words = ["build", str(path), "--board", "host", "--batch", "2", "--optimizer", "momentum"]
    assert main([*words, "--lr", "0.1", "-o", str(folder / "build")]) == 0
    return folder / "build"


@pytest.fixture
def trained(run: Any, host_build: Path, data: Path, tmp_path: Path) -> Path:
    """A card with checkpoints of steps 6 and 8; the weights beside it."""
    card = tmp_path / "card.img"
    found = run(
        "train", host_build, "--data", data, "--epochs", 2, "--emulate", "--card", card,
        "--checkpoint-every", 3, "--save", tmp_path / "trained.onnx", "--json",
    )  # fmt: skip
    assert (found.code, found.json["steps"]) == (0, STEPS)
    return card


def test_info_check_and_export(run: Any, host_build: Path, trained: Path, tmp_path: Path) -> None:
    facts = run("card", "info", trained, "--json").json
    manifest = json.loads((host_build / "manifest.json").read_text())
    assert facts["build_id"] == manifest["build_id"]
    assert {slot["step"] for slot in facts["slots"]} == {6, 8}
    newest = facts["slots"][facts["newest_slot"]]
    assert (newest["step"], newest["state"], newest["lr"]) == (8, "whole", None)
    assert newest["model_sha256"] == manifest["model_sha256"]
    assert run("card", "check", trained, "--build", host_build).code == 0
    out = tmp_path / "from_card.onnx"
    assert run("card", "export", trained, "--build", host_build, "--save", out).code == 0
    assert out.read_bytes() == (tmp_path / "trained.onnx").read_bytes()
    shown = run("card", "info", trained)
    assert "slot 0: whole" in shown.out
    assert "(newest)" in shown.out


def slot_bytes(run: Any, card: Path, slot: int) -> int:
    """Where the header of a slot begins in the image."""
    raw = card.read_bytes()
    region = run("card", "info", card, "--json").json["region_block"] * 512
    first, blocks = struct.unpack_from("<2I", raw, region + 40)
    return region + (first + slot * blocks) * 512


def patch(card: Path, at: int, new: bytes) -> None:
    with card.open("r+b") as file:
        file.seek(at)
        file.write(new)


def test_a_damaged_slot_is_told_and_the_older_one_exported(
    run: Any, host_build: Path, trained: Path, data: Path, tmp_path: Path
) -> None:
    newest = run("card", "info", trained, "--json").json["newest_slot"]
    patch(trained, slot_bytes(run, trained, newest) + 512 + 3, b"\x55")
    found = run("card", "check", trained, "--json")
    assert found.code == 1
    assert f"slot {newest}: expected a whole checkpoint or none, got a damaged one" in found.err
    assert not found.json["ok"]
    out = run(
        "card", "export", trained, "--build", host_build, "--save", tmp_path / "o.onnx", "--json"
    )
    assert (out.code, out.json["step"]) == (0, 6)
    again = run(
        "train", host_build, "--data", data, "--epochs", 2, "--emulate", "--card", trained,
        "--resume", "--save", tmp_path / "again.onnx", "--json",
    )  # fmt: skip
    assert (again.json["resumed_at_step"], again.json["newer_checkpoint_damaged"]) == (6, True)
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "trained.onnx").read_bytes()


HEADERS = {
    "a bit of the magic": (3, b"\x55"),
    "a bit of the build": (25, b"\x55"),
    "a bit of the step": (85, b"\x55"),
    "its checksum": (112, b"\x55\xaa"),
    "torn": (60, bytes(452)),
    "all of it": (0, b"\xff" * 512),
}


@pytest.mark.parametrize("rot", HEADERS)
def test_a_rotten_header_of_the_newest_checkpoint_is_told(
    run: Any, host_build: Path, trained: Path, data: Path, tmp_path: Path, rot: str
) -> None:
    """The older one is taken, and everyone who takes it says that a newer one may be lost."""
    newest = run("card", "info", trained, "--json").json["newest_slot"]
    at, new = HEADERS[rot]
    patch(trained, slot_bytes(run, trained, newest) + at, new)
    told = f"slot {newest}: a newer checkpoint than that of step 6 may be lost: its header is not"
    found = run("card", "check", trained)
    assert (found.code, told in found.err) == (1, True), found.err
    assert f"slot {newest}: expected a whole checkpoint or none, got a header that" in found.err
    assert told in run("card", "info", trained).out
    out = tmp_path / "o.onnx"
    exported = run("card", "export", trained, "--build", host_build, "--save", out)
    assert (exported.code, told in exported.out) == (0, True)
    again = run(
        "train", host_build, "--data", data, "--epochs", 2, "--emulate", "--card", trained,
        "--resume", "--json",
    )  # fmt: skip
    assert (again.json["resumed_at_step"], again.json["newer_checkpoint_damaged"]) == (6, True)
    assert "warning: the board went on from an older checkpoint" in again.err


def test_a_rotten_header_of_the_older_checkpoint_loses_nothing(
    run: Any, host_build: Path, trained: Path, data: Path
) -> None:
    newest = run("card", "info", trained, "--json").json["newest_slot"]
    patch(trained, slot_bytes(run, trained, 1 - newest) + 85, b"\x55")
    found = run("card", "check", trained)
    assert found.code == 1
    assert f"slot {1 - newest}: expected a whole checkpoint or none, got a header" in found.err
    assert "may be lost" not in found.err
    again = run(
        "train", host_build, "--data", data, "--epochs", 2, "--emulate", "--card", trained,
        "--resume", "--json",
    )  # fmt: skip
    assert (again.json["resumed_at_step"], again.json["newer_checkpoint_damaged"]) == (8, False)
    assert "warning" not in again.err


def test_an_erased_header_is_a_checkpoint_that_was_never_finished(run: Any, trained: Path) -> None:
    newest = run("card", "info", trained, "--json").json["newest_slot"]
    patch(trained, slot_bytes(run, trained, newest), bytes(512))
    facts = run("card", "check", trained, "--json").json
    assert (facts["faults"], facts["doubt"], facts["newest_slot"]) == ([], None, 1 - newest)


def test_a_checkpoint_of_another_model_is_refused_by_its_hash(
    run: Any, host_build: Path, trained: Path, data: Path, tmp_path: Path
) -> None:
    for slot in (0, 1):
        at = slot_bytes(run, trained, slot)
        header = bytearray(trained.read_bytes()[at : at + 112])
        header[36] ^= 1
        patch(trained, at, bytes(header) + struct.pack("<I", zlib.crc32(header)))
    out = run("card", "export", trained, "--build", host_build, "--save", tmp_path / "o.onnx")
    assert out.code == 2
    assert "model: expected" in out.err
    assert not (tmp_path / "o.onnx").exists()
    again = run("train", host_build, "--data", data, "--emulate", "--card", trained, "--resume")
    assert again.code == 5
    assert "POET_E_CHECKPOINT_BUILD (checkpoint of another model or build)" in again.err


def test_a_card_of_another_build_is_refused(
    run: Any, host_build: Path, trained: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(host_build, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["build_id"] = "00" * 16
    (other / "manifest.json").write_text(json.dumps(manifest))
    out = run("card", "export", trained, "--build", other, "--save", tmp_path / "o.onnx")
    assert out.code == 2
    assert "build id: expected 0000" in out.err
    assert run("card", "check", trained, "--build", other).code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seed", 7), "--seed: expected 0, that of the checkpoint, got 7; give --seed 0"),
        (("--epochs", 1), "--epochs: expected at least the 8 steps of the checkpoint, got 4"),
    ],
)
def test_resume_refuses_what_does_not_go_on(
    run: Any, host_build: Path, trained: Path, data: Path, words: tuple[object, ...], message: str
) -> None:
    found = run(
        "train", host_build, "--data", data, "--emulate", "--card", trained, "--resume", *words
    )
    assert (found.code, message in found.err) == (2, True), found.err


def test_resume_with_other_data_is_refused(
    run: Any, host_build: Path, trained: Path, data: Path, tmp_path: Path
) -> None:
    other = dict(np.load(data))
    other["x"][0, 0] += 1
    np.savez(tmp_path / "other.npz", **other)
    found = run(
        "train", host_build, "--data", tmp_path / "other.npz", "--emulate", "--card", trained,
        "--resume",
    )  # fmt: skip
    assert found.code == 2
    assert "expected the data and batch of the checkpoint" in found.err


def test_wrong_uses(run: Any, host_build: Path, data: Path, tmp_path: Path) -> None:
    train = ("train", host_build, "--data", data)
    assert "--card FILE with --emulate" in run(*train, "--emulate", "--resume").err
    found = run(*train, "--port", "/dev/null", "--card", tmp_path / "c.img")
    assert (found.code, "--card: expected it with --emulate" in found.err) == (2, True)
    found = run(*train, "--emulate", "--card", tmp_path / "new.img", "--resume")
    assert (found.code, "POET_E_CHECKPOINT (no whole checkpoint" in found.err) == (5, True)
    found = run("validate", host_build, "--emulate", "--steps", 2, "--checkpoint-every", 3)
    assert (found.code, "expected at most the 2 steps" in found.err) == (2, True)


def test_validate_goes_back_and_comes_to_the_same_bits(run: Any, host_build: Path) -> None:
    found = run(
        "validate", host_build, "--emulate", "--steps", 5, "--checkpoint-every", 3, "--json"
    )
    assert (found.code, found.json["faults"]) == (0, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got none with a whole header"),
        (bytes(4096), "got none with a whole header"),
        (b"POET-MCU CARD\0\0\0" * 64, "got none with a whole header"),
    ],
)
def test_images_that_are_none(run: Any, tmp_path: Path, content: bytes, message: str) -> None:
    image = tmp_path / "card.img"
    image.write_bytes(content)
    for verb in ("info", "check"):
        found = run("card", verb, image)
        assert (found.code, message in found.err) == (2, True)
    assert run("card", "info", tmp_path).code == 2
    assert run("card", "info", tmp_path / "none").code == 2
    assert "block 3: expected the header" in run("card", "info", image, "--block", 3).err


@pytest.mark.parametrize(
    ("region_blocks", "slot_block", "slot_blocks", "message"),
    [
        (2**32 - 1, 1, 2, "the image was cut short"),
        (8, 1, 2**31, "with 2 slots of 2147483648 in it"),
        (8, 0, 2, "with 2 slots of 2 in it"),
        (8, 7, 1, "with 2 slots of 1 in it"),
    ],
)
def test_headers_that_contradict_the_image(
    run: Any, tmp_path: Path, region_blocks: int, slot_block: int, slot_blocks: int, message: str
) -> None:
    body = struct.pack(
        "<16sI16s3I", b"POET-MCU CARD\0\0\0", 2, bytes(16), region_blocks, slot_block, slot_blocks
    )
    image = tmp_path / "card.img"
    image.write_bytes((body + struct.pack("<I", zlib.crc32(body))).ljust(16 * 512, b"\0"))
    found = run("card", "info", image)
    assert (found.code, message in found.err) == (2, True), found.err


def test_every_shortened_or_changed_image_is_an_error_or_told(
    run: Any, trained: Path, tmp_path: Path
) -> None:
    """No bytes of an image bring a traceback; the slots are whole only when they are."""
    raw = trained.read_bytes()
    region = run("card", "info", trained, "--json").json["region_block"] * 512
    end = slot_bytes(run, trained, 1) + 2 * 512
    rng = np.random.default_rng(0)
    image = tmp_path / "changed.img"
    for _ in range(60):
        changed = bytearray(raw[: end + 40 * 512])
        for _ in range(int(rng.integers(1, 4))):
            changed[int(rng.integers(region, end))] ^= 1 << int(rng.integers(8))
        image.write_bytes(changed[: int(rng.integers(region, len(changed)))])
        assert run("card", "info", image, "--json").code in (0, 2)
