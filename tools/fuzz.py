"""Fuzzes one target for some minutes and says what came of it.

    python tools/fuzz.py link --minutes 30           trainer and serial parser (C, libFuzzer)
    python tools/fuzz.py card --minutes 30           page store and checkpoints (C, libFuzzer)
    python tools/fuzz.py onnx --minutes 30           front end to plan (Python, atheris)
    python tools/fuzz.py files --minutes 30          boards, problems, build folders, card images
    python tools/fuzz.py link --minutes 0 --keep     minimise the corpus into tests/fuzz/corpus

C targets need clang with its libFuzzer (Debian: clang libclang-rt-14-dev), Python targets
``pip install atheris``. An input that takes more than 10 s or 2 GiB counts as a finding. The
first finding ends the run with status 1; the input lies in the work folder, with its name said.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))

import c_targets  # noqa: E402  the folder is put on the path above

PYTHON_TARGETS = ("onnx", "files")
LIMITS = ("-rss_limit_mb=2048", "-timeout=10")
#: longest inputs that are made; models and board files are longer than frames
MOST_BYTES = {"link": 2048, "card": 1024, "onnx": 8192, "files": 8192}
CLANGS = ("clang", "clang-19", "clang-16", "clang-15", "clang-14")


def command_of(target: str, work: Path) -> list[str]:
    """What runs the target, to which libFuzzer's options are added."""
    if target in PYTHON_TARGETS:
        return [sys.executable, str(ROOT / "tests" / "fuzz" / "fuzz_python.py"), target]
    clang = next(filter(None, map(shutil.which, CLANGS)), None)
    if clang is None:
        sys.exit("fuzz: expected clang, got none; sudo apt-get install clang libclang-rt-14-dev")
    return [str(c_targets.build_fuzzer(target, work / f"fuzz_{target}", clang))]


def run(command: Sequence[str], log: Path) -> tuple[int, str]:
    """Status and output of a command in ``log``'s folder, at low priority."""
    environment = os.environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    with log.open("wb") as output:
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=environment,
            check=False,
        )
    return done.returncode, log.read_text(encoding="utf-8", errors="replace")


def summary(target: str, text: str, started: float, corpus: Path) -> str:
    """One line: minutes, executions, coverage, features, inputs."""
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+) ft: (\d+)", text) or [("0", "0")]
    points = re.findall(r"(\d+) inline 8-bit counters", text)
    of = f" of {points[0]}" if points and target not in PYTHON_TARGETS else ""
    minutes = (time.monotonic() - started) / 60
    return (
        f"{target}: {minutes:.1f} minutes, {runs[-1] if runs else '?'} executions, "
        f"{covered[-1][0]}{of} edges, {covered[-1][1]} features, "
        f"{len(list(corpus.iterdir()))} inputs"
    )


def keep(target: str, command: list[str], work: Path, corpus: Path, most_bytes: int) -> None:
    """The smallest inputs that cover what the corpus covers, into the repository."""
    least = work / f"least_{target}"
    shutil.rmtree(least, ignore_errors=True)
    least.mkdir()
    merge = [*command, "-merge=1", f"-max_len={most_bytes}", *LIMITS, str(least), str(corpus)]
    status, text = run(merge, work / f"merge_{target}.log")
    if status != 0:
        sys.exit(f"{target}: expected the corpus to be minimised, got:\n{text[-2000:]}")
    archive = c_targets.pack(target, least)
    inputs = len(list(least.iterdir()))
    print(f"{target}: kept {inputs} inputs, {archive.stat().st_size} bytes", flush=True)


def fuzz(target: str, minutes: float, work: Path, *, minimise: bool) -> int:
    """0 when nothing was found."""
    corpus = work / f"corpus_{target}"
    corpus.mkdir(parents=True, exist_ok=True)
    c_targets.unpack(target, corpus)
    command = command_of(target, work)
    status, started = 0, time.monotonic()
    if minutes > 0:
        options = [f"-max_total_time={round(60 * minutes)}", f"-max_len={MOST_BYTES[target]}"]
        options += [*LIMITS, "-print_final_stats=1", f"-artifact_prefix={work}/{target}-"]
        status, text = run([*command, *options, str(corpus)], work / f"{target}.log")
        print(summary(target, text, started, corpus), flush=True)
        if status != 0:
            print(text[-3000:], file=sys.stderr)
    if minimise and status == 0:
        keep(target, command, work, corpus, MOST_BYTES[target])
    return 1 if status else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*c_targets.TARGETS, *PYTHON_TARGETS])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--work", type=Path, help="folder of corpus, log and findings")
    parser.add_argument("--keep", action="store_true", help="minimise into tests/fuzz/corpus")
    given = parser.parse_args()
    work = given.work or Path(tempfile.gettempdir()) / "poet-mcu-fuzz"
    work.mkdir(parents=True, exist_ok=True)
    return fuzz(given.target, given.minutes, work.resolve(), minimise=given.keep)


if __name__ == "__main__":
    sys.exit(main())
