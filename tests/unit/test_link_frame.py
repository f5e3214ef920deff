"""Framing: what is sent comes out, whatever happens to the bytes around it."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from poet_mcu.link.frame import (
    PAYLOAD_BYTES,
    Frame,
    FrameDecoder,
    cobs_decode,
    cobs_encode,
    encode_frame,
)

frames = st.builds(
    Frame,
    st.integers(0, 255),
    st.integers(0, 0xFFFF),
    st.binary(max_size=PAYLOAD_BYTES),
    st.integers(0, 255),
)


def decode(data: bytes) -> list[Frame]:
    return FrameDecoder().feed(data)


@given(st.binary(max_size=1200))
@example(b"")
@example(b"\0")
@example(b"\x01" * 254)
@example(b"\x01" * 254 + b"\0")
@example(b"\x01" * 255)
@example(b"\x01" * 508)
@example(bytes(600))
def test_cobs_round_trip(data: bytes) -> None:
    encoded = cobs_encode(data)
    assert 0 not in encoded
    assert len(encoded) <= len(data) + 1 + len(data) // 254
    assert cobs_decode(encoded) == data


def test_cobs_examples_of_the_paper() -> None:
    assert cobs_encode(b"") == b"\x01"
    assert cobs_encode(b"\0") == b"\x01\x01"
    assert cobs_encode(b"\x11\x22\0\x33") == b"\x03\x11\x22\x02\x33"
    assert cobs_encode(b"\x11" * 254) == b"\xff" + b"\x11" * 254
    assert cobs_encode(b"\x11" * 255) == b"\xff" + b"\x11" * 254 + b"\x02\x11"


def test_bytes_no_encoder_writes() -> None:
    assert cobs_decode(b"\x05ab") is None
    assert cobs_decode(b"\x03a\0") is None
    assert cobs_decode(b"\0") is None


def test_the_bytes_of_a_frame() -> None:
    assert encode_frame(Frame(0x01, 0x0203)).hex() == "000901010302a1e0195d00"


@given(st.lists(frames, max_size=5), st.data())
def test_a_stream_may_be_split_anywhere(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(frame) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder = FrameDecoder()
    found: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoder.feed(stream[start:end])
    assert found == sent
    assert decoder.damaged == 0


@given(frames, st.data())
def test_one_dropped_byte_never_gives_another_frame(frame: Frame, data: st.DataObject) -> None:
    encoded = encode_frame(frame)
    at = data.draw(st.integers(1, len(encoded) - 2))
    harmed = encoded[:at] + encoded[at + 1 :]
    assert decode(harmed + encode_frame(Frame(1, 2))) == [Frame(1, 2)]


@given(frames, st.data())
def test_one_doubled_byte_never_gives_another_frame(frame: Frame, data: st.DataObject) -> None:
    encoded = encode_frame(frame)
    at = data.draw(st.integers(1, len(encoded) - 2))
    harmed = encoded[:at] + encoded[at : at + 1] + encoded[at:]
    found = decode(harmed + encode_frame(Frame(1, 2)))
    assert found[-1] == Frame(1, 2)
    assert found[:-1] in ([], [frame])


@given(frames, st.data())
def test_an_inserted_zero_costs_the_frame_alone(frame: Frame, data: st.DataObject) -> None:
    encoded = encode_frame(frame)
    at = data.draw(st.integers(2, len(encoded) - 2))
    harmed = encoded[:at] + b"\0" + encoded[at:]
    assert decode(harmed + encode_frame(Frame(1, 2))) == [Frame(1, 2)]


@given(frames, st.data())
def test_up_to_three_flipped_bits_of_a_byte_are_seen(frame: Frame, data: st.DataObject) -> None:
    encoded = bytearray(encode_frame(frame))
    at = data.draw(st.integers(1, len(encoded) - 2))
    encoded[at] ^= data.draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 3, 7, 0x81]))
    found = decode(bytes(encoded) + encode_frame(Frame(1, 2)))
    assert found == [Frame(1, 2)]


@given(st.binary(max_size=3000), frames)
def test_noise_before_a_frame_costs_nothing_of_it(noise: bytes, frame: Frame) -> None:
    found = decode(noise + encode_frame(frame))
    assert found[-1] == frame


@given(frames)
def test_first_bytes_lost_after_open(frame: Frame) -> None:
    encoded = encode_frame(frame)
    for lost in (1, 2, 3):
        assert decode(encoded[lost:] + encode_frame(frame))[-1] == frame


def test_endless_noise_takes_no_memory() -> None:
    decoder = FrameDecoder()
    for _ in range(100):
        assert decoder.feed(b"\x55" * 10_000) == []
    assert len(decoder._open) < 1000
    assert decoder.feed(b"\0" + encode_frame(Frame(3, 4))) == [Frame(3, 4)]
    assert decoder.damaged == 1


def test_a_frame_longer_than_the_limit_is_damage() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(Frame(1, 1, bytes(PAYLOAD_BYTES)))) != []
    assert decoder.feed(encode_frame(Frame(1, 1, bytes(PAYLOAD_BYTES + 1)))) == []
    assert decoder.damaged == 1
