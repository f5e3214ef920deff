"""The pytest plugin: options that choose a board, the fixtures ``board`` and ``firmware``.

Loaded by every pytest of an environment with poet-mcu, so nothing heavy is imported before a
fixture is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from poet_mcu.link.client import Board
    from poet_mcu.pipeline.target import BuildFolder
    from poet_mcu.testing.report import Report
    from poet_mcu.testing.target import Running, Target

REPORT = pytest.StashKey["Report"]()
#: where the suite keeps its builds: a folder that outlives the run, or '' for a temporary one
BUILDS = "POET_MCU_HIL_BUILDS"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of a hardware-in-the-loop run."""
    group = parser.getgroup("poet-mcu", "a board with poet-mcu firmware")
    group.addoption("--board", metavar="NAME", help="Board, its TOML file, or entry of the rig.")
    group.addoption("--port", metavar="URL", help="Serial port of the board.")
    group.addoption("--probe", metavar="ID", help="Serial number of the debug probe.")
    group.addoption("--emulate", action="store_true", help="Run in the board's emulator.")
    group.addoption("--rig", metavar="FILE", help="TOML file of the boards on this desk.")
    group.addoption("--no-flash", action="store_true", help="Use the firmware that is there.")
    group.addoption("--erase-card", action="store_true", help="The card may be overwritten.")
    group.addoption("--soak", metavar="S", type=float, default=0.0, help="Seconds of soak test.")
    group.addoption("--require-hil", action="store_true", help="Fail where no board is there.")
    group.addoption("--hil-report", metavar="FILE", help="Write a report (.md or .json) here.")


def pytest_configure(config: pytest.Config) -> None:
    """Markers, and the report where one is asked for."""
    config.addinivalue_line("markers", "hil: needs a board or its emulator")
    config.addinivalue_line("markers", "soak: runs only with --soak SECONDS")
    if config.getoption("--hil-report"):
        from poet_mcu.testing.report import Report  # noqa: PLC0415 - not before it is needed

        config.stash[REPORT] = Report()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the soak test unless its seconds are given."""
    if config.getoption("--soak") > 0:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in left_out]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what each test measured for the report."""
    kept = _report_of_session()
    if kept is not None:
        kept.add(report)


_SESSIONS: list[pytest.Config] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Reports of tests come without their session: remember it."""
    _SESSIONS.append(session.config)


def _report_of_session() -> Report | None:
    return _SESSIONS[-1].stash.get(REPORT, None) if _SESSIONS else None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the report."""
    config = _SESSIONS.pop() if _SESSIONS else session.config
    report = config.stash.get(REPORT, None)
    if report is not None:
        report.write(Path(config.getoption("--hil-report")), int(exitstatus))


def _given(config: pytest.Config) -> dict[str, str | bool | None]:
    """The keys of a rig's entry that options replace."""
    return {
        "port": config.getoption("--port"),
        "probe": config.getoption("--probe"),
        "emulate": config.getoption("--emulate"),
        "by_hand": config.getoption("--no-flash"),
        "erase_card": config.getoption("--erase-card"),
    }


@pytest.fixture(scope="session")
def hil_target(pytestconfig: pytest.Config) -> Target:
    """The board that the options choose; without one the test is skipped, or fails when asked."""
    from poet_mcu.errors import PoetError  # noqa: PLC0415 - as above
    from poet_mcu.testing.rig import entry_of  # noqa: PLC0415 - as above
    from poet_mcu.testing.target import Target  # noqa: PLC0415 - as above

    rig = pytestconfig.getoption("--rig")
    try:
        entry = entry_of(
            pytestconfig.getoption("--board"), Path(rig) if rig else None, _given(pytestconfig)
        )
        if entry is None:
            _absent(pytestconfig, "no board: say --board NAME with --port or --emulate, or --rig")
        target = Target.of(entry)
        where = target.where()
    except PoetError as error:
        _absent(pytestconfig, str(error))
    report = _report_of_session()
    if report is not None:
        report.about(target, where)
    return target


def _absent(config: pytest.Config, reason: str) -> NoReturn:
    if config.getoption("--require-hil"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def hil_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the suite's builds."""
    kept = os.environ.get(BUILDS)
    return Path(kept) if kept else tmp_path_factory.mktemp("hil")


@pytest.fixture(scope="session")
def firmware(hil_target: Target, hil_builds: Path) -> BuildFolder:
    """A small network, built for the board: what ``board`` runs."""
    from poet_mcu.pipeline.build import build  # noqa: PLC0415 - as above
    from poet_mcu.pipeline.options import Options  # noqa: PLC0415 - as above
    from poet_mcu.pipeline.target import open_folder  # noqa: PLC0415 - as above
    from poet_mcu.testing.network import save_network  # noqa: PLC0415 - as above

    hil_builds.mkdir(parents=True, exist_ok=True)
    model = save_network(hil_builds / "hil.onnx")
    out = hil_builds / "training"
    build(Options(model, hil_target.rig.board, batch=2, lr=0.05, strategy="page-all"), out)
    return open_folder(out)


@pytest.fixture(scope="module")
def running(hil_target: Target, firmware: BuildFolder) -> Iterator[Running]:
    """``firmware`` on the board."""
    with hil_target.boot(firmware) as found:
        yield found


@pytest.fixture
def board(running: Running) -> Board:
    """An open connection to ``firmware``; the page region of its card is prepared."""
    from poet_mcu.link import status  # noqa: PLC0415 - as above

    if running.board.identify().card_status == status.E_CARD_IMAGE:
        running.board.format_card()
    return running.board
