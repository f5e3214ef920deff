"""The generated files: no warning on any core, the shape that DESIGN.md promises, hostile names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import models
import numpy as np
import onnx
import pytest

from poet_mcu.pipeline.build import build
from poet_mcu.pipeline.options import Options
from poet_mcu.pipeline.train import TrainOptions, train
from poet_mcu.pipeline.validate import validate
from poet_mcu.toolchain.flags import LANGUAGE, WARNINGS

CORES = {
    "m0plus": ["-mthumb", "-mcpu=cortex-m0plus", "-mfloat-abi=soft"],
    "m3": ["-mthumb", "-mcpu=cortex-m3", "-mfloat-abi=soft"],
    "m4f": ["-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
    "m7": ["-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"],
    "m55": ["-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard"],
    "host": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build that pages and recomputes, with a frozen tensor."""
    root = tmp_path_factory.mktemp("generated")
    path = models.save(models.residual(4, channels=8, size=8), root / "net.onnx")
    options = Options(path, "qemu-m7-sd", strategy="page-all", freeze=("conv2.bias",))
    build(options, root / "out", dump=True)
    return root / "out"


@pytest.mark.parametrize("core", CORES)
def test_no_warning_on_any_core(core: str, folder: Path, tmp_path: Path) -> None:
    compiler = "cc" if core == "host" else "arm-none-eabi-gcc"
    fused = int(core in ("m4f", "m7", "m55"))
    defines = [f"-DPOET_FMA_FUSED={fused}", "-DPOET_CORE_HZ=50000000u"]
    include = [f"-I{folder / 'src'}", f"-I{folder / 'firmware' / 'include'}"]
    sources = sorted((folder / "src").glob("*.c"))
    sources += [f for f in sorted((folder / "firmware").rglob("*.c")) if "port" not in f.parts]
    assert len(sources) > 12
    command = [compiler, *CORES[core], *LANGUAGE, *WARNINGS, "-O2", *defines, *include, "-c"]
    command += [str(source) for source in sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_the_files_look_as_promised(folder: Path) -> None:
    schedule = (folder / "src" / "poet_schedule.c").read_text()
    sha = re.search(r"sha256  ([0-9a-f]{64})", schedule)
    assert sha
    for line in ("Made by poet-mcu", "board   qemu-m7-sd", "model   net.onnx", "options loss="):
        assert line in schedule
    body = schedule[schedule.index("poet_status poet_generated_train_step") :]
    for word in ("if ", "for ", "while ", "malloc", "goto", "double"):
        assert word not in re.sub(r"/\*.*?\*/", "", body), word
    assert re.search(r"poet_page_out\(run->pages, \d+u, AT\(at_\w+\)\)", body)
    assert re.search(r"poet_page_in\(run->pages, \d+u, AT\(at_\w+\)\)", body)
    assert re.search(r"poet_page_wait\(run->pages, \d+u\)", body)
    for name in ("poet_model.h", "poet_model.c", "poet_schedule.c", "poet_weights.c"):
        text = (folder / "src" / name).read_text()
        assert max(len(line) for line in text.splitlines()) <= 120, name
        assert text.endswith("\n")
        assert not re.search(r"[ \t]\n", text), name


def test_the_dump_shows_every_level(folder: Path) -> None:
    names = {path.name for path in (folder / "dump").iterdir()}
    levels = ("1_graph", "2_schedule", "3_placement")
    assert names == {f"{step}_{level}.txt" for step in ("train", "eval") for level in levels}
    assert "page_out" in (folder / "dump" / "train_2_schedule.txt").read_text()


HOSTILE = [
    "int", "1x", "a/b", "a:b", "a.b", "main", "x*/y", "n" * 300, "gewicht_größe_重み",
    "n" * 401, "n" * 700 + "a", "n" * 700 + "b", "ü" * 250, "eval:x", "loss", "int:momentum",
    'quote"\\', "// comment", "??/", "{{ 7*7 }}", "%% endfor", "%s%n", "\n#error", "NULL",
]  # fmt: skip


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """Cases A12: every tensor and node name is a stranger's string; the C compiles and trains."""
    nodes, tensors, last = [], {}, "x"
    for i, name in enumerate(HOSTILE):
        tensors[name] = models.weights(4, 4, seed=i, scale=0.6)
        out = "y" if i == len(HOSTILE) - 1 else f"{name}#{i}"
        nodes.append(onnx.helper.make_node("MatMul", [last, name], [out], name=f"{name}!"))
        last = out
    path = models.save(models.model(nodes, [2, 4], tensors, y=[2, 4]), tmp_path / "names.onnx")
    out = tmp_path / "out"
    build(Options(path, "host", lr=1e-3, optimizer="momentum"), out)
    found = validate(out, steps=2, dump=tmp_path / "dump.npz")
    assert found.faults == ()
    assert set(found.board.weights) == set(HOSTILE)
    with np.load(tmp_path / "dump.npz") as stored:
        assert set(stored) == {*HOSTILE, "loss~2"}
        assert stored["loss"].shape == (2,)
        assert np.array_equal(stored["loss~2"].ravel(), found.board.weights["loss"])
    np.savez(tmp_path / "d.npz", x=np.ones((2, 4), np.float32), y=np.int32([0, 1]))
    train(out, TrainOptions(tmp_path / "d.npz", save=tmp_path / "trained.onnx"))
    trained = {t.name: t for t in onnx.load(tmp_path / "trained.onnx").graph.initializer}
    assert set(trained) == set(HOSTILE)
    for name, before in tensors.items():
        after = onnx.numpy_helper.to_array(trained[name])
        assert np.allclose(after, before, atol=0.1), name  # each its own, a small step further
    for source in sorted((out / "src").iterdir()):
        assert source.read_bytes().isascii()


def test_one_byte_less_fails_the_link(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    needed = json.loads((copy / "plan.json").read_text())["elf_ram_bytes"]
    script = copy / "linker.ld"
    text = script.read_text()
    make = ["make", "-s", "-C", str(copy), "firmware.elf"]
    for budget, fits in ((needed, True), (needed - 1, False)):
        script.write_text(re.sub(r"(RAM \(rw\).*LENGTH = )\d+", rf"\g<1>{budget}", text))
        (copy / "firmware.elf").unlink(missing_ok=True)
        done = subprocess.run([*make, "-j2"], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == fits, done.stderr
    assert "region `RAM' overflowed by" in done.stderr
