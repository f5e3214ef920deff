import pytest

from poet_mcu import resources
from poet_mcu.errors import InternalError


def test_root_of_a_checkout_holds_the_three_folders():
    assert (resources.root() / "pyproject.toml").is_file()
    assert resources.boards().is_dir()
    assert resources.templates().is_dir()
    assert (resources.firmware() / "include" / "poet").is_dir()


def test_root_prefers_the_data_of_a_wheel(tmp_path, monkeypatch):
    package = tmp_path / "poet_mcu"
    for name in ("templates", "boards", "firmware"):
        (package / "_data" / name).mkdir(parents=True)
        (tmp_path / name).mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.root() == package / "_data"


def test_a_damaged_installation_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "poet_mcu")
    with pytest.raises(InternalError, match="expected the folders templates, boards and firmware"):
        resources.root()
