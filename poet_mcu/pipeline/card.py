"""``card``: what is on a card, whether it is whole, and its weights back into the ONNX model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from poet_mcu.errors import InputError
from poet_mcu.frontend.export import save_with_weights
from poet_mcu.ir.graph import Role
from poet_mcu.link.card_image import CardImage, Slot, read_card
from poet_mcu.pipeline.position import Position
from poet_mcu.pipeline.target import BuildFolder, open_folder
from poet_mcu.units import BLOCK_BYTES, blocks

_NOT_WHOLE = {
    "damaged": "a damaged one",
    "foreign": "a foreign one",
    "torn": "a header that is not whole",
}
_LOST = {
    "damaged": "its data has another checksum",
    "torn": "its header is not whole; power failed while it was written, or the card has lost it",
}
_WEIGHTS = (Role.PARAMETER.value, Role.STATISTIC.value)


def card_info(image: Path, folder: Path | None = None, block: int | None = None) -> dict[str, Any]:
    """The facts of the card or image: its region and both checkpoint slots.

    ``block`` is that of the region's header; None: that of the build in ``folder``, or the first
    one found. Raises InputError where there is no region.
    """
    return _facts(read_card(image, _region_block(folder, block)))


def check_card(
    image: Path, folder: Path | None = None, block: int | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """``card_info``, and everything that is wrong; ``folder``: also that it is of that build."""
    card = read_card(image, _region_block(folder, block))
    faults = [
        f"slot {slot.number}: expected a whole checkpoint or none, got {_NOT_WHOLE[slot.state]}"
        + (f" of step {slot.step}" if slot.state != "torn" else "")
        for slot in card.slots
        if slot.state in _NOT_WHOLE
    ]
    doubt = doubt_of(card)
    faults += [] if doubt is None else [doubt]
    if card.newest is None:
        faults.append("checkpoints: expected a whole one, got none")
    if folder is not None:
        build = open_folder(folder)
        if card.build_id != build.build_id:
            faults.append(_other("build id", build.build_id, card.build_id))
        faults += _hash_faults(card, build)
    return _facts(card), tuple(faults)


def export_card(image: Path, folder: Path, save: Path) -> dict[str, Any]:
    """Write the weights of the newest checkpoint on ``image`` into the model of ``folder``.

    Raises InputError when the card is of another build or model, or holds no whole checkpoint.
    """
    build = open_folder(folder)
    card = read_card(image, _region_block(folder, None))
    if card.build_id != build.build_id:
        text = _other("build id", build.build_id, card.build_id)
        raise InputError(f"{image}: {text}; give the folder of the build that trained it")
    slot = card.newest
    if slot is None:
        raise InputError(
            f"{image}: checkpoints: expected a whole one, got none; train with --checkpoint-every"
        )
    wrong = _hash_faults(card, build)
    if wrong:
        raise InputError(f"{image}: {wrong[0]}; give the folder of the build that trained it")
    save_with_weights(folder / "model.onnx", _weights(card, slot, build), save)
    facts = {"saved": str(save), "sequence": slot.sequence, "step": slot.step}
    return facts | {"doubt": doubt_of(card)}


def doubt_of(card: CardImage) -> str | None:
    """The sentence that says that the newest whole checkpoint may not be the newest of all."""
    slot, newest = card.doubtful, card.newest
    if slot is None or newest is None:
        return None
    return (
        f"slot {slot.number}: a newer checkpoint than that of step {newest.step} may be lost: "
        f"{_LOST[slot.state]}"
    )


def _region_block(folder: Path | None, block: int | None) -> int | None:
    if block is not None or folder is None:
        return block
    return int(open_folder(folder).plan["checkpoint"]["region_first_block"])


def _other(what: str, expected: bytes, got: bytes) -> str:
    return f"{what}: expected {expected.hex()}, got {got.hex()}"


def _hash_faults(card: CardImage, build: BuildFolder) -> list[str]:
    model = bytes.fromhex(build.manifest["model_sha256"])
    return [
        _other(f"slot {slot.number}: model", model, slot.model_hash)
        for slot in card.slots
        if slot.state == "whole" and slot.model_hash != model
    ]


def _weights(card: CardImage, slot: Slot, build: BuildFolder) -> dict[str, npt.NDArray[np.generic]]:
    """Parameters and statistics by ONNX name, flat."""
    data = card.data(slot)
    found: dict[str, npt.NDArray[np.generic]] = {}
    at = 0
    for tensor in build.plan["checkpoint"]["tensors"]:
        nbytes = int(tensor["nbytes"])
        if at + nbytes > len(data):
            raise InputError(
                f"{card.path}: slot {slot.number}: expected {at + nbytes} bytes or more, got "
                f"{len(data)}; give the folder of the build that trained it"
            )
        if tensor["role"] in _WEIGHTS:
            found[tensor["name"]] = np.frombuffer(data[at : at + nbytes], "<f4").copy()
        at += blocks(nbytes) * BLOCK_BYTES
    return found


def _facts(card: CardImage) -> dict[str, Any]:
    newest = card.newest
    return {
        "image": str(card.path),
        "build_id": card.build_id.hex(),
        "region_block": card.region_block,
        "region_blocks": card.region_blocks,
        "newest_slot": newest.number if newest else None,
        "doubt": doubt_of(card),
        "slots": [_slot_facts(slot) for slot in card.slots],
    }


def _slot_facts(slot: Slot) -> dict[str, Any]:
    facts: dict[str, Any] = {"slot": slot.number, "state": slot.state}
    if slot.state in ("empty", "torn"):
        return facts
    position = Position.unpack(slot.position)
    return facts | {
        "build_id": slot.build_id.hex(),
        "model_sha256": slot.model_hash.hex(),
        "sequence": slot.sequence,
        "step": slot.step,
        "loss": slot.loss if math.isfinite(slot.loss) else None,
        "data_bytes": slot.data_blocks * BLOCK_BYTES,
        "seed": position.seed,
        "data_crc": f"{position.data_crc:08x}",
        "lr": position.lr,
    }
