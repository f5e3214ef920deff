"""Every message of the serial link, against the real runtime in a sanitized host process."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from trainer import harness
from trainer.harness import BUILD_ID, MOMENTUM, Reference, W, batches, build

from poet_mcu.errors import DeviceError, InputError
from poet_mcu.link import status
from poet_mcu.link.client import Board, open_board
from poet_mcu.link.emulator import run_host
from poet_mcu.link.protocol import Message, TensorRole
from poet_mcu.link.transport import BoardFault, Link, Request


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("host"))


@pytest.fixture
def board(firmware: Path, tmp_path: Path) -> Iterator[Board]:
    with (
        run_host(firmware, harness.blank_card(tmp_path)) as url,
        open_board(url, build_id=BUILD_ID) as opened,
    ):
        opened.format_card()
        yield opened


def test_identify_tells_the_model_of_the_firmware(board: Board) -> None:
    identity = board.identify()
    assert (identity.model, identity.board) == ("tiny", "host")
    assert identity.build_id == BUILD_ID
    assert identity.model_hash == b"\xab\0\xcd" + bytes(29)
    assert identity.arena_bytes == 4 * (2 * 512 + 2 + 2 * 3 * 512 + 6 + 6 + 1 + 512 + 3 + 3)
    assert (identity.train_action_count, identity.eval_action_count) == (9, 2)
    assert identity.default_lr == pytest.approx(0.05)
    assert (identity.steps_done, identity.card_status, identity.page_count) == (0, 0, 1)
    assert not identity.failed


def test_tensor_table(board: Board) -> None:
    infos = {info.name: info for info in board.tensors()}
    assert list(infos)[:4] == ["x", "labels", W, MOMENTUM]
    assert infos[W].nbytes == 3 * 512 * 4
    assert infos[W].role is TensorRole.PARAMETER
    assert infos["labels"].dtype == np.int32
    with pytest.raises(InputError, match=r"tensor 'label': expected .*did you mean 'labels'"):
        board.tensor("label")


def test_read_and_write_every_length_class(board: Board) -> None:
    np.testing.assert_array_equal(board.read_tensor(W), harness.initial_w().reshape(-1))
    rng = np.random.default_rng(0)
    for values in (
        np.zeros(1024, np.float32),
        np.frombuffer(rng.integers(1, 255, 4096).astype(np.uint8).tobytes(), np.float32),
        np.frombuffer(rng.integers(0, 2, 4096).astype(np.uint8).tobytes(), np.float32),
    ):
        board.write_tensor("x", values)
        assert board.read_tensor("x").tobytes() == values.tobytes()
        assert board.tensor_crc("x") == zlib.crc32(values.tobytes())
        assert board.tensor_equals("x", values)
    assert not board.tensor_equals("x", np.ones(1024, np.float32))
    np.testing.assert_array_equal(board.read_tensor("scale"), np.float32([1, 0.5, 0.25]))


def test_a_weight_is_held_against_the_boards_checksum(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lives on the card may read otherwise the second time, which nothing else would tell."""
    weights = [t.name for t in board.tensors() if t.role.name in ("PARAMETER", "STATE")]
    assert weights
    told = board.tensor_crc
    monkeypatch.setattr(board, "tensor_crc", lambda name: told(name) ^ 1)
    for name in weights:
        with pytest.raises(DeviceError, match=f"'{name}': expected bytes with CRC"):
            board.read_tensor(name)


def test_wrong_arrays_are_refused_before_they_are_sent(board: Board) -> None:
    with pytest.raises(InputError, match="tensor 'x': expected 1024 elements that fit float32"):
        board.write_tensor("x", np.zeros(1023, np.float32))
    with pytest.raises(InputError, match="got 2 of float64"):
        board.write_tensor("labels", [0.5, 1.0])
    with pytest.raises(InputError, match="got 2 of int64"):
        board.write_tensor("labels", [0, 2**31])
    board.write_tensor("labels", [-(2**31), 2**31 - 1])
    assert board.read_tensor("labels").tolist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("name", ["loss", "scale", "y:eval"])
def test_roles_the_host_may_not_write(board: Board, name: str) -> None:
    size = board.tensor(name).nbytes // 4
    with pytest.raises(BoardFault, match=r"WRITE: expected .* POET_E_ARG"):
        board.write_tensor(name, np.zeros(size, np.float32))


def _raw(board: Board, message: Message, *values: int, extra: bytes = b"") -> bytes:
    payload = struct.pack(f"<{len(values)}I", *values) + extra
    return board._link.exchange([Request(message, payload)])[0]


@pytest.mark.parametrize(
    ("message", "values", "extra", "expected"),
    [
        (Message.TENSOR_INFO, (9,), b"", status.E_ARG),
        (Message.TENSOR_INFO, (0xFFFF_FFFF,), b"", status.E_ARG),
        (Message.TENSOR_INFO, (), b"", status.E_PROTOCOL),
        (Message.READ, (0, 0, 513), b"", status.E_ARG),
        (Message.READ, (0, 4096, 1), b"", status.E_ARG),
        (Message.READ, (0, 0xFFFF_FFFF, 2), b"", status.E_ARG),
        (Message.READ, (9, 0, 1), b"", status.E_ARG),
        (Message.READ, (0, 0), b"", status.E_PROTOCOL),
        (Message.WRITE, (0, 4095), b"ab", status.E_ARG),
        (Message.WRITE, (0, 0xFFFF_FFFF), b"ab", status.E_ARG),
        (Message.WRITE, (9, 0), b"a", status.E_ARG),
        (Message.WRITE, (0,), b"", status.E_PROTOCOL),
        (Message.TENSOR_CRC, (9,), b"", status.E_ARG),
        (Message.TRAIN_STEP, (0, 0), b"", status.E_PROTOCOL),
        (Message.TRAIN_STEP, (0, 0, 2), b"", status.E_ARG),
        (Message.TRAIN_STEP, (1, 0, 0), b"", status.E_STATE),
        (Message.TRAIN_STEP, (0xFFFF_FFFF, 0, 0), b"", status.E_STATE),
        (Message.FORMAT_CARD, (), bytes(16), status.E_BUILD),
        (Message.IDENTIFY, (1,), b"", status.E_PROTOCOL),
    ],
)
def test_bad_requests_are_refused_and_harm_nothing(
    board: Board, message: Message, values: tuple[int, ...], extra: bytes, expected: int
) -> None:
    before = board.read_tensor("x").tobytes()
    with pytest.raises(BoardFault) as refused:
        _raw(board, message, *values, extra=extra)
    assert refused.value.answer.status == expected
    assert board.read_tensor("x").tobytes() == before
    assert board.identify().steps_done == 0
    assert not board.identity.failed


def test_training_equals_the_reference_to_the_bit(board: Board) -> None:
    reference = Reference()
    for index, batch in enumerate(batches(5)):
        result = board.train_step(batch, lr=0.01)
        assert result.step == index
        assert result.loss == reference.train(batch["x"], batch["labels"], 0.01)
        assert result.cycles > 0
    assert board.read_tensor(W).tobytes() == reference.w.tobytes()
    assert board.tensor_equals(MOMENTUM, reference.momentum)
    counters = board.counters()
    assert (counters.steps, counters.sd_reads, counters.sd_writes) == (5, 5, 5)
    assert (counters.sd_read_bytes, counters.sd_write_bytes) == (5 * 24, 5 * 24)
    assert counters.damaged_frames == 0
    assert counters.step_cycles == result.cycles


def test_a_repeated_step_is_not_counted_twice(board: Board) -> None:
    batch = batches(1)[0]
    first = board.train_step(batch, lr=0.01)
    weights = board.read_tensor(W).tobytes()
    again = board.train_step(lr=0.01, step=0)
    assert (again.loss, again.cycles) == (first.loss, first.cycles)
    assert board.read_tensor(W).tobytes() == weights
    assert board.identify().steps_done == 1
    with pytest.raises(BoardFault, match=r"TRAIN_STEP: expected .* POET_E_STATE"):
        board.train_step(lr=0.01, step=2)


def test_trace_names_every_action_in_order(board: Board) -> None:
    trace = board.train_step(batches(1)[0], trace=True).trace
    assert [entry.action for entry in trace] == [0, 1, 2, 3, 4, 5, 7, 8]
    cycles = [entry.cycles for entry in trace]
    assert cycles == sorted(cycles)
    assert cycles[-1] <= board.counters().step_cycles


def test_an_infinite_loss_is_a_loss(board: Board) -> None:
    batch = batches(1)[0]
    batch["x"] = np.full((2, 512), 1e30, np.float32)
    assert math.isinf(board.train_step(batch).loss)
    assert board.identify().steps_done == 1
    with pytest.raises(InputError, match="learning rate: expected a finite float32"):
        board.train_step(batch, lr=1e39)


def test_evaluation_and_its_repetition(board: Board) -> None:
    x = batches(1)[0]["x"][:1]
    assert board.evaluate({"x:eval": x}) > 0
    expected = Reference().forward(x)[0]
    assert board.read_tensor("y:eval").tobytes() == expected.tobytes()
    # The evaluation has destroyed its input; asking again must not evaluate zeros.
    _raw(board, Message.EVALUATE, board._token)
    assert board.read_tensor("y:eval").tobytes() == expected.tobytes()
    board.evaluate()
    assert board.read_tensor("y:eval").tolist() == [0, 0, 0]


def test_a_failed_evaluation_stays_failed_when_asked_again(board: Board) -> None:
    board.write_tensor("control", [0, status.E_PAGE_CRC, 0])
    with pytest.raises(BoardFault, match="action 1: expected it to run, got POET_E_PAGE_CRC"):
        board.evaluate()
    board.write_tensor("control", [0, 0, 0])
    with pytest.raises(BoardFault, match="POET_E_PAGE_CRC"):
        _raw(board, Message.EVALUATE, board._token)
    board.evaluate()
    board.train_step(batches(1)[0])


def test_after_a_failed_step_only_a_reset_helps(board: Board) -> None:
    good, bad = batches(2)
    board.train_step(good)
    with pytest.raises(BoardFault, match=r"step 1, action 7: expected it to run, got POET_E_PAGE"):
        board.train_step({**bad, "control": [0, status.E_PAGE_CRC, 0]})
    board.write_tensor("control", [0, 0, 0])
    for attempt in (lambda: board.train_step(bad), board.evaluate):
        with pytest.raises(BoardFault, match="step 1, action 7 failed before with POET_E_PAGE_CRC"):
            attempt()
    assert board.identify().failed
    identity = board.reset_model()
    assert (identity.failed, identity.steps_done) == (False, 0)
    assert board.read_tensor(W).tobytes() == harness.initial_w().tobytes()
    assert not board.read_tensor(MOMENTUM).any()
    assert board.train_step(good, lr=0.01).loss == Reference().train(
        good["x"], good["labels"], 0.01
    )


def test_keep_alive_frames_renew_the_time_out(firmware: Path, tmp_path: Path) -> None:
    with (
        run_host(firmware, harness.blank_card(tmp_path)) as url,
        open_board(url, 0.15, step_timeout_s=1.9) as board,
    ):
        board.format_card()
        batch = batches(1)[0]
        # 2.4 s in eight actions: longer than the time-out, and asked again meanwhile
        result = board.train_step({**batch, "control": [300, 0, 8]}, lr=0.01)
        assert result.loss == Reference().train(batch["x"], batch["labels"], 0.01)
        assert board.identify().steps_done == 1
        assert board.counters().frames > 20
        with pytest.raises(DeviceError, match=r"TRAIN_STEP: .* within 1\.9 s, got serial silence"):
            board.train_step({**batch, "control": [3000, 0, 1]})


def test_the_line_may_be_reopened(firmware: Path, tmp_path: Path) -> None:
    with run_host(firmware, harness.blank_card(tmp_path)) as url:
        with open_board(url) as board:
            board.format_card()
            board.train_step(batches(1)[0])
        with open_board(url) as board:
            assert board.steps_done == 1
            board.train_step(batches(1)[0])
            assert board.steps_done == 2


def test_wrong_build_is_refused_with_both_ids(firmware: Path, tmp_path: Path) -> None:
    with run_host(firmware, harness.blank_card(tmp_path)) as url:
        with pytest.raises(DeviceError) as refused:
            open_board(url, build_id=bytes(16))
        assert "0" * 32 in str(refused.value)
        assert BUILD_ID.hex() in str(refused.value)
        with pytest.raises(InputError, match="build id: expected 16 bytes, got 3"):
            open_board(url, build_id=b"abc")


def test_wrong_abi_is_refused_by_both_sides(tmp_path: Path) -> None:
    firmware = build(tmp_path, defines=("TEST_ABI=7",))
    with run_host(firmware) as url:
        with pytest.raises(DeviceError, match="ABI version: expected 1 and 3, got 1 and 7"):
            open_board(url)
        with Link(url, 1.0, 3) as link, pytest.raises(BoardFault, match="POET_E_BUILD"):
            link.exchange([Request(Message.COUNTERS)])


def test_reboot_ends_the_host_firmware(firmware: Path, tmp_path: Path) -> None:
    with run_host(firmware, harness.blank_card(tmp_path)) as url:
        with open_board(url) as board:
            board.reboot()
        with pytest.raises(DeviceError, match="serial port or socket that can be opened"):
            open_board(url)


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(None, "POET_E_NO_CARD"), (9 * 512, "POET_E_CARD_SMALL"), (10 * 512, "POET_E_CARD_IMAGE")],
)
def test_steps_are_refused_with_the_status_of_the_card(
    firmware: Path, tmp_path: Path, size_bytes: int | None, expected: str
) -> None:
    card = None if size_bytes is None else harness.blank_card(tmp_path, size_bytes)
    with run_host(firmware, card) as url, open_board(url) as board:
        assert status.find(board.identity.card_status).name == expected
        for attempt in (lambda: board.train_step(batches(1)[0]), board.evaluate):
            with pytest.raises(BoardFault, match=expected):
                attempt()
        assert not board.identify().failed
        assert board.identity.steps_done == 0
        if expected == "POET_E_CARD_IMAGE":
            assert board.format_card().card_status == status.OK
            board.train_step(batches(1)[0])
        else:
            with pytest.raises(BoardFault, match=f"FORMAT_CARD: .*{expected}"):
                board.format_card()


def test_a_card_that_comes_late_is_found_by_a_reset(firmware: Path, tmp_path: Path) -> None:
    card = harness.blank_card(tmp_path)
    with run_host(firmware, card) as url, open_board(url) as board:
        board.format_card()
        good = card.read_bytes()
        card.write_bytes(bytes(len(good)))
        assert board.reset_model().card_status == status.E_CARD_IMAGE
        card.write_bytes(good)
        assert board.reset_model().card_status == status.OK


def test_a_plan_without_pages_never_touches_the_card(tmp_path: Path) -> None:
    firmware = build(tmp_path, defines=("TEST_PAGES=0",))
    reference = Reference()
    with run_host(firmware) as url, open_board(url) as board:
        assert (board.identity.page_count, board.identity.card_status) == (0, status.OK)
        board.format_card()
        for batch in batches(3):
            loss = board.train_step(batch, lr=0.01).loss
            assert loss == reference.train(batch["x"], batch["labels"], 0.01)
        assert board.counters().sd_writes == 0
    assert not list(tmp_path.glob("*.img"))
