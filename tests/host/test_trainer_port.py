"""The host port as a process: options, ends, connections."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest
from trainer.harness import build

from poet_mcu.link.frame import Frame, FrameDecoder, encode_frame
from poet_mcu.link.protocol import ANSWER, Message

LIMIT_S = 20.0


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("port"))


def start(firmware: Path, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [str(firmware), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("poet: listening on 127.0.0.1:")
    return process, int(line.rsplit(":", 1)[1])


def ask(line: socket.socket, sequence: int) -> list[Frame]:
    line.sendall(encode_frame(Frame(Message.COUNTERS, sequence)))
    decoder = FrameDecoder()
    found: list[Frame] = []
    while not found:
        found = decoder.feed(line.recv(4096))
    return found


def test_it_ends_when_its_standard_input_closes(firmware: Path) -> None:
    process, port = start(firmware)
    with process, socket.create_connection(("127.0.0.1", port)) as line:
        assert ask(line, 5)[0].sequence == 5
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0


def test_it_ends_by_sigterm(firmware: Path) -> None:
    process, _ = start(firmware)
    with process:
        process.terminate()
        assert process.wait(LIMIT_S) == -signal.SIGTERM


def test_it_listens_where_it_is_told(firmware: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process, told = start(firmware, "--listen", str(port))
    with process:
        assert told == port
        second = subprocess.run(
            [str(firmware), "--listen", str(port)],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert second.returncode == 2
        assert b"cannot listen on 127.0.0.1" in second.stderr
        process.terminate()


def test_connections_come_one_after_another(firmware: Path) -> None:
    process, port = start(firmware)
    with process:
        for sequence in range(3):
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.sendall(b"\x11half a frame")
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.settimeout(LIMIT_S)
                assert ask(line, sequence)[-1].type == Message.COUNTERS | ANSWER
        process.terminate()


def test_a_host_that_never_reads_does_not_block_the_next(firmware: Path) -> None:
    process, port = start(firmware)
    request = encode_frame(Frame(Message.COUNTERS, 1))
    with process:
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(request * 50)
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.settimeout(LIMIT_S)
            assert ask(line, 9)[-1].sequence == 9
        process.terminate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--card"], "got a lone: --card"),
        (["--colour", "x"], "got: --colour"),
        (["--listen", "65536"], "expected a port number 0..65535, got: 65536"),
        (["--listen", "x"], "expected a port number"),
        (["--listen", "-1"], "expected a port number"),
    ],
)
def test_wrong_options(firmware: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [str(firmware), *arguments], capture_output=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 2
    assert message in done.stderr.decode()
