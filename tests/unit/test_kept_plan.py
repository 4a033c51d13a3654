"""Kept plans: used while nothing they are made from has changed, and only then."""

import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fedrepro.errors import FedreproError
from fedrepro.plan import kept
from fedrepro.plan.plan import make_plan
from tests.helpers import ROOT

USER = {"tier": "tiny"}


@dataclass
class Folder:
    """A workflow's folder with a few files, and what was planned in it."""

    root: Path
    package: Path
    planned: list[Any] = field(default_factory=list)

    def start(self, user: dict[str, Any] = USER) -> Any:
        return kept.kept_plan(self.root, user, [Path("mine.yaml")])

    @property
    def files(self) -> list[Path]:
        return list((self.root / kept.FOLDER).glob("*"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Plans are numbers here, counted up."""
    made = Folder(tmp_path, tmp_path / "src/fedrepro")
    for path in ("config/papers/fedswe/grid.yaml", "src/fedrepro/algorithms/fedswe.py"):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copy(ROOT / path, tmp_path / path)

    def plan(root: Path, user: dict[str, Any], sources: list[Path]) -> int:
        made.planned.append((root, user, sources))
        return len(made.planned)

    monkeypatch.setattr(kept, "make_plan", plan)
    monkeypatch.setattr(kept, "PACKAGE_ROOT", made.package)
    return made


def test_a_plan_survives_being_kept() -> None:
    plan = make_plan(ROOT, USER)
    assert pickle.loads(pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)) == plan


def test_what_is_planned_once_is_used_again(folder: Folder) -> None:
    assert [folder.start() for _ in range(3)] == [1, 1, 1]
    assert folder.planned == [(folder.root, USER, [Path("mine.yaml")])]


def test_every_configuration_has_its_own(folder: Folder) -> None:
    users: list[Any] = [
        USER,
        {"tier": "demo"},
        {},
        {"seeds": 3},
        {"seeds": "3"},
        {"seeds": [3]},
        {3: 4, "a": 5},
    ]
    assert [folder.start(user) for user in users] == [1, 2, 3, 4, 5, 6, 7]
    assert [folder.start(user) for user in users] == [1, 2, 3, 4, 5, 6, 7]


def append(folder: Folder) -> None:
    with (folder.package / "algorithms/fedswe.py").open("a") as file:
        file.write("# a comment\n")


def edit(folder: Folder) -> None:
    path = folder.root / "config/papers/fedswe/grid.yaml"
    path.write_text(path.read_text().replace("2000", "2001", 1))


def add(folder: Folder) -> None:
    (folder.package / "algorithms/another.py").write_text("")


def remove(folder: Folder) -> None:
    (folder.package / "algorithms/fedswe.py").unlink()


def rename(folder: Folder) -> None:
    (folder.package / "algorithms/fedswe.py").rename(folder.package / "algorithms/fedswa.py")


def damage(folder: Folder) -> None:
    (path,) = folder.files
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def truncate(folder: Folder) -> None:
    (path,) = folder.files
    path.write_bytes(path.read_bytes()[:40])


def empty(folder: Folder) -> None:
    (path,) = folder.files
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [append, edit, add, remove, rename, damage, truncate, empty])
def test_a_change_plans_again(change: Callable[[Folder], None], folder: Folder) -> None:
    folder.start()
    change(folder)
    assert [folder.start(), folder.start()] == [2, 2]
    assert len(folder.files) == 1, "the old one is replaced"


def test_other_software_plans_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.start()
    monkeypatch.setattr("pydantic.VERSION", "0")
    assert folder.start() == 2


def test_a_copied_folder_needs_no_plan(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder.start()
    copy = tmp_path_factory.mktemp("copy") / "workflow"
    shutil.copytree(folder.root, copy)
    assert Folder(copy, folder.package).start() == 1


def test_where_nothing_can_be_kept_plans_are_made(folder: Folder) -> None:
    (folder.root / ".snakemake").write_text("not a folder")
    assert [folder.start(), folder.start()] == [1, 2]


def test_a_mistake_is_said_every_time(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise FedreproError("a mistake")

    monkeypatch.setattr(kept, "make_plan", refuse)
    for _ in range(2):
        with pytest.raises(FedreproError, match="a mistake"):
            folder.start()
    assert folder.files == []
