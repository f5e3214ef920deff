"""Training over a bad line, and bytes that no host would send."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from trainer import harness
from trainer.harness import BUILD_ID, MOMENTUM, Reference, W, batches, build
from trainer.proxy import bad_line

from poet_mcu.link.client import Board
from poet_mcu.link.emulator import run_host
from poet_mcu.link.frame import Frame, FrameDecoder, encode_frame
from poet_mcu.link.protocol import ANSWER, Message
from poet_mcu.link.transport import Link

STEPS = 40


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("replay"), port="replay")


@pytest.mark.parametrize("window", [1, 8])
def test_a_lossy_line_trains_the_same_weights(tmp_path: Path, window: int) -> None:
    firmware = build(tmp_path)
    reference = Reference()
    losses = [reference.train(b["x"], b["labels"], 0.01) for b in batches(STEPS)]
    with (
        run_host(firmware, harness.blank_card(tmp_path)) as url,
        bad_line(url, seed=window, rate=0.02) as line,
        Board(Link(line.url, 0.1, 100, window), 30.0) as board,
    ):
        board.require(BUILD_ID)
        board.format_card()
        assert [board.train_step(batch, lr=0.01).loss for batch in batches(STEPS)] == losses
        assert board.read_tensor(W).tobytes() == reference.w.tobytes()
        assert board.read_tensor(MOMENTUM).tobytes() == reference.momentum.tobytes()
        counters = board.counters()
        assert (counters.steps, counters.sd_writes) == (STEPS, STEPS)
        # the line was bad in both directions, and each side has noticed or repeated
        assert line.to_board.harmed > 3
        assert line.to_host.harmed > 3
        assert counters.damaged_frames > 0


def play(replay: Path, data: bytes) -> tuple[list[Frame], int]:
    """The frames the firmware answers with; it must survive (sanitizers) and send no damage."""
    done = subprocess.run([str(replay)], input=data, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    decoder = FrameDecoder()
    return decoder.feed(done.stdout), decoder.damaged


def test_noise_is_survived_and_the_next_frame_is_answered(replay: Path) -> None:
    rng = random.Random(1)
    data = bytearray()
    for sequence in range(300):
        data += rng.randbytes(rng.randrange(2000))
        if rng.random() < 0.5:
            data += b"\xff" * rng.randrange(600)
        data += encode_frame(Frame(Message.TENSOR_CRC, sequence, struct.pack("<I", 8)))
    answers, damaged = play(replay, bytes(data))
    crc = struct.pack("<I", zlib.crc32(struct.pack("<3f", 1.0, 0.5, 0.25)))
    assert answers == [Frame(Message.TENSOR_CRC | ANSWER, sequence, crc) for sequence in range(300)]
    assert damaged == 0


def test_any_well_formed_frame_gets_exactly_one_answer(replay: Path) -> None:
    rng = random.Random(2)
    data = bytearray()
    expected = []
    for sequence in range(4000):
        kind = rng.choice([*range(13), *range(0x80, 0x90), 0x7F, 0xFF])
        if kind == Message.REBOOT:
            continue
        words = [rng.choice([0, 1, 2, 3, 8, 9, 511, 512, 2**31, 2**32 - 1]) for _ in range(3)]
        payload = struct.pack("<3I", *words) + rng.randbytes(rng.randrange(500))
        payload = payload[: rng.choice([0, 3, 4, 8, 12, 16, 512])]
        version = rng.choice([1, 1, 1, 0, 2, 255])
        data += encode_frame(Frame(kind, sequence, payload, version))
        if kind < ANSWER:
            expected.append(sequence)
    answers, damaged = play(replay, bytes(data))
    unasked = (Message.TRACE, Message.PROGRESS)
    assert [frame.sequence for frame in answers if frame.type not in unasked] == expected
    assert damaged == 0


def test_mutated_frames_never_crash(replay: Path) -> None:
    rng = random.Random(3)
    data = bytearray()
    for sequence in range(3000):
        kind = rng.choice([m for m in Message if m is not Message.REBOOT])
        frame = bytearray(encode_frame(Frame(kind, sequence, rng.randbytes(rng.randrange(513)))))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(frame))
            frame[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        data += frame
    data += encode_frame(Frame(Message.COUNTERS, 0xABCD))
    answers, damaged = play(replay, bytes(data))
    assert answers[-1].sequence == 0xABCD
    good, bad = struct.unpack_from("<II", answers[-1].payload, 28)
    assert good > 300
    assert bad > 300
    assert damaged == 0


def test_c_and_python_agree_on_every_run_of_bytes(replay: Path) -> None:
    rng = random.Random(4)
    data = bytearray()
    expected = []
    for _ in range(700):
        size = rng.choice([1, 2, 253, 254, 255, 256, 503, 504])
        zeros = rng.choice([0.0, 0.002, 0.5, 1.0])
        block = bytes(0 if rng.random() < zeros else rng.randrange(1, 256) for _ in range(size))
        data += encode_frame(Frame(Message.WRITE, 1, struct.pack("<II", 0, 5) + block))
        data += encode_frame(Frame(Message.READ, 2, struct.pack("<III", 0, 5, size)))
        expected.append(block)
    answers, damaged = play(replay, bytes(data))
    assert [f.payload for f in answers if f.type == Message.READ | ANSWER] == expected
    assert damaged == 0


def test_too_long_a_frame_is_damage_and_not_an_overrun(replay: Path) -> None:
    long = encode_frame(Frame(Message.WRITE, 1, bytes(8) + b"\x55" * 505))
    data = long + encode_frame(Frame(Message.IDENTIFY, 2)) + b"\0\0\0"
    answers, _ = play(replay, data + encode_frame(Frame(Message.COUNTERS, 3)))
    assert [frame.sequence for frame in answers] == [2, 3]
    assert struct.unpack_from("<II", answers[-1].payload, 28) == (2, 1)


def test_trace_and_progress_carry_the_sequence_of_their_step(replay: Path) -> None:
    step = Frame(Message.TRAIN_STEP, 77, struct.pack("<IfI", 0, 0.5, 1))
    data = encode_frame(Frame(Message.FORMAT_CARD, 76, BUILD_ID)) + encode_frame(step)
    answers, _ = play(replay, data)
    assert {frame.sequence for frame in answers[1:]} == {77}
    kinds = [frame.type for frame in answers[1:]]
    # the replay port's clock runs on by a second per look: every action reports
    assert kinds == [Message.TRACE, Message.PROGRESS] * 8 + [Message.TRAIN_STEP | ANSWER]
    # its cycles count looks at the clock: two per action, and those of sending are left out
    cycles = [struct.unpack("<IQ", f.payload)[1] for f in answers if f.type == Message.TRACE]
    assert cycles == [1, 2, 3, 4, 5, 6, 7, 8]
