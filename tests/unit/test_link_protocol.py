"""Messages and status codes against the C headers they repeat."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from poet_mcu.errors import DeviceError
from poet_mcu.link import frame, protocol, status
from poet_mcu.link.protocol import (
    Counters,
    ErrorAnswer,
    Fault,
    Identity,
    Message,
    StepAnswer,
    TensorInfo,
    TensorRole,
    Trace,
)
from poet_mcu.link.transport import board_fault

HEADERS = Path(__file__).resolve().parents[2] / "firmware/include/poet"


def header(name: str) -> str:
    return (HEADERS / name).read_text()


def test_status_table_equals_status_h() -> None:
    listed = re.findall(r'X\((\w+), (-?\d+), "([^"]+)"\)', header("status.h"))
    assert len(listed) > 15
    ours = [(s.name, str(s.value), s.text) for s in status.STATUSES]
    assert ours == listed


def test_status_constants_and_unknown_values() -> None:
    for name in ("OK", "E_ARG", "E_STATE", "E_NO_CARD", "E_CARD_IMAGE", "E_PAGE_CRC", "E_BUILD"):
        assert status.find(getattr(status, name)).name == "POET_" + name
    assert status.describe(-4) == "POET_E_NO_CARD (no SD card answers)"
    assert status.describe(-99) == "status -99 (unknown status)"
    assert all(s.advice and not s.advice.endswith(".") for s in status.STATUSES)


def test_message_types_equal_link_h() -> None:
    text = header("link.h")
    listed = {n: int(v, 16) for n, v in re.findall(r"POET_MSG_(\w+) = (0x\w+)", text)}
    assert listed.pop("ANSWER") == protocol.ANSWER
    assert listed == {message.name: message.value for message in Message}
    assert f"POET_LINK_VERSION {frame.VERSION}u" in text
    assert f"POET_LINK_PAYLOAD_BYTES {frame.PAYLOAD_BYTES}u" in text


def test_roles_and_abi_equal_model_h() -> None:
    text = header("model.h")
    listed = {n: int(v) for n, v in re.findall(r"POET_ROLE_(\w+) = (\d+)", text)}
    assert listed == {role.name: role.value for role in TensorRole}
    assert f"POET_ABI_VERSION {protocol.ABI_VERSION}" in text


def test_state_bits_equal_trainer_h() -> None:
    text = header("trainer.h")
    assert f"POET_STATE_FAILED {protocol.STATE_FAILED}u" in text
    assert f"POET_STATE_WRONG_ABI {protocol.STATE_WRONG_ABI}u" in text
    assert f"POET_STATE_BEGUN {protocol.STATE_BEGUN}u" in text
    assert f"POET_TRAIN_TRACE {protocol.TRACE_FLAG}u" in text


IDENTITY = (
    struct.pack("<II", 1, 1)
    + bytes(range(16))
    + bytes(32)
    + struct.pack("<IIIifIIIII", 4096, 7, 3, -12, 0.5, 20, 9, 2, 1000, 1)
    + b"\x04tiny\x05board"
)


def test_identity() -> None:
    identity = Identity.unpack(IDENTITY)
    assert identity.build_id == bytes(range(16))
    assert (identity.arena_bytes, identity.tensor_count, identity.steps_done) == (4096, 7, 3)
    assert (identity.card_status, identity.default_lr) == (-12, 0.5)
    assert (identity.train_action_count, identity.eval_action_count) == (20, 9)
    assert (identity.page_count, identity.cycle_hz, identity.failed) == (2, 1000, True)
    assert (identity.model, identity.board) == ("tiny", "board")


@pytest.mark.parametrize("damage", [IDENTITY[:50], IDENTITY[:-1], IDENTITY + b"x", IDENTITY[:96]])
def test_identity_of_another_length_is_refused(damage: bytes) -> None:
    with pytest.raises(DeviceError, match=r"board: identity: expected \d+ bytes, got \d+; build"):
        Identity.unpack(damage)


def test_tensor_info() -> None:
    info = TensorInfo.unpack(3, struct.pack("<IBBH", 8, 1, 1, 3) + "é1".encode())
    assert info == TensorInfo(3, "é1", 8, TensorRole.LABEL, np.dtype("<i4"))
    with pytest.raises(DeviceError, match="tensor information: expected 9 bytes, got 8"):
        TensorInfo.unpack(3, struct.pack("<IBBH", 8, 1, 1, 1))
    with pytest.raises(DeviceError, match="tensor 3: expected a known role and type, got 99 and 0"):
        TensorInfo.unpack(3, struct.pack("<IBBH", 8, 99, 0, 0))


def test_the_other_answers() -> None:
    assert StepAnswer.unpack(struct.pack("<fQ", 0.25, 2**40)) == StepAnswer(0.25, 2**40)
    assert Trace.unpack(struct.pack("<IQ", 5, 9)) == Trace(5, 9)
    counters = Counters.unpack(struct.pack("<QQIIIIIIIQI", *range(1, 12)))
    assert (counters.sd_read_bytes, counters.sd_writes, counters.damaged_frames) == (1, 4, 7)
    assert (counters.stack_bytes, counters.step_cycles, counters.cycle_hz) == (8, 10, 11)
    assert protocol.unpack_u32(b"\1\0\0\0", "x") == 1
    assert protocol.unpack_u64(b"\1\0\0\0\0\0\0\0", "x") == 1
    with pytest.raises(DeviceError, match="board: x: expected 4 bytes, got 0"):
        protocol.unpack_u32(b"", "x")


def test_errors_say_where_why_and_what_to_do() -> None:
    none = protocol.NONE
    answer = ErrorAnswer.unpack(struct.pack("<iIIIi", -13, 7, 42, 8195, -13))
    assert answer == ErrorAnswer(-13, Fault(7, 42, 8195, -13))
    assert str(board_fault("/dev/ttyACM0", Message.TRAIN_STEP, answer)) == (
        "/dev/ttyACM0: step 7, action 42, card block 8195: expected it to run, got "
        "POET_E_PAGE_CRC (a page's checksum does not match); "
        "the card lost or mixed up a write: replace it, then reset the model"
    )
    answer = ErrorAnswer.unpack(struct.pack("<iIIIi", -2, 7, 42, none, -4))
    assert str(board_fault("u", Message.EVALUATE, answer)) == (
        "u: EVALUATE: expected a model in a known state, got POET_E_STATE (not allowed in this "
        "state): step 7, action 42 failed before with POET_E_NO_CARD (no SD card answers); "
        "reset the model, then train again from step 0, and for the cause: "
        "insert a card, then reset the model"
    )
    answer = ErrorAnswer.unpack(struct.pack("<iIIIi", -1, 7, none, none, -1))
    assert str(board_fault("u", Message.READ, answer)) == (
        "u: READ: expected the board to do it, got POET_E_ARG (argument out of range); "
        "check the tensor, its role and the range that were asked for"
    )
