"""Fixtures: prepared data and a finished tiny training cell; how processes share the tests."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.helpers import FinishedCell, finish_cell, prepare_files, shared_inputs, spec_of

settings.register_profile("fedrepro", deadline=None)  # how busy the machine is decides nothing
settings.load_profile("fedrepro")

CLUSTER = "tests/slurm/"
APART = "tests/workflow/"  # most of its tests take long and share nothing but the finished tiny tier
WHOLE = ("test_exports.py", "test_extension_pages.py")  # of these, tests share what the first has made


class ByWhatTheyShare(LoadScopeScheduling):  # type: ignore[misc]
    """Files stay together, all tests on the cluster stay together, long tests are given out one by one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        if file.startswith(CLUSTER):
            return "slurm"
        return nodeid if file.startswith(APART) and not file.endswith(WHOLE) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Used with ``pytest -n``."""
    config.option.loadscopereorder = False
    return ByWhatTheyShare(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``pytest -n`` long tests come first, so that no process is left with one at the end.

    One of them starts the run of the tiny tier that others share; those that do without it are next.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        first = [item for item in items if _waits(item) and not item.nodeid.startswith(CLUSTER)][:1]
        items.sort(key=lambda item: (item not in first, *_turn(item)))


def _turn(item: pytest.Item) -> tuple[bool, bool, bool]:
    return not item.nodeid.startswith(CLUSTER), not item.nodeid.startswith(APART), _waits(item)


def _waits(item: pytest.Item) -> bool:
    """Whether a test needs the finished tiny tier."""
    return isinstance(item, pytest.Function) and "finished" in item.fixturenames


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Prepared splits of mnist5k; nobody may change them."""
    return prepare_files(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="session")
def pristine(prepared: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> FinishedCell:
    """A finished training cell with its inputs; nobody may change it."""
    folder = tmp_path_factory.mktemp("pristine")
    spec = spec_of(batch_size=20)
    return finish_cell(spec, shared_inputs(spec, prepared, folder), folder / "cells")


@pytest.fixture
def cell(pristine: FinishedCell, tmp_path: Path) -> FinishedCell:
    """A copy of the finished cell, with a partition and a trace of its own to damage."""
    folder = tmp_path / "cells" / pristine.folder.name
    shutil.copytree(pristine.folder, folder)
    inputs = dict(pristine.planned.inputs)
    for name in ("partition", "trace"):
        source = Path(inputs[name])
        for path in (source, source.with_name(source.name + ".json")):
            shutil.copy(path, tmp_path / path.name)
        inputs[name] = str(tmp_path / source.name)
    return FinishedCell(folder, pristine.planned._replace(inputs=inputs), pristine.spec)
