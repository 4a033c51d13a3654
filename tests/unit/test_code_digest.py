"""Digests of the code behind a result: what they contain, what changes them and what does not."""

import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from fedrepro.core.registry import PACKAGE_ROOT
from fedrepro.errors import FedreproError
from fedrepro.provenance import code, jobs
from fedrepro.provenance.code import NEUTRAL, closure, code_digest
from tests.helpers import spec_of

MODULES = jobs.modules("train", spec_of())


class Packages:
    """Makes edited copies of the package, and digests them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.number = folder, monkeypatch, 0

    def use(self, root: Path) -> None:
        self.monkeypatch.setattr(code, "PACKAGE_ROOT", root)

    def digest(self, file: str = "", old: str = "", new: str = "") -> str:
        """Digest of a training run's code after replacing ``old`` (which must be there) by ``new``."""
        self.number += 1
        root = self.folder / str(self.number) / "fedrepro"
        shutil.copytree(PACKAGE_ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
        if file:
            text = (root / file).read_text()
            assert old in text
            (root / file).write_text(text.replace(old, new, 1))
        self.use(root)
        return code_digest(closure(MODULES))

    def modules(self, **texts: str) -> Path:
        """A package of small modules."""
        self.number += 1
        root = self.folder / str(self.number) / "fedrepro"
        root.mkdir(parents=True)
        for name, text in ({"__init__": ""} | texts).items():
            (root / f"{name}.py").write_text(text)
        self.use(root)
        return root


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    return Packages(tmp_path, monkeypatch)


CITED = 'CITATION = "McMahan et al., Communication-efficient learning of deep networks, AISTATS 2017"'
NEUTRAL_EDITS = [
    ("core/local.py", "LocalPhase =", "# a comment\nLocalPhase ="),
    ("core/engine.py", "import math\n", "import math\n\n\n"),
    ("core/engine.py", '"""The one federated loop', '"""Another account of the loop'),
    ("core/rng.py", '"""A fresh generator for one key.', '"""One generator.'),
    (
        "core/rng.py",
        '"partition", "phi", "trace",',
        '"partition", "phi",\n "trace",',
    ),
    ("core/algorithm.py", '"""The clients that are available in a round.', '"""Clients.'),
    ("algorithms/fedavg_active.py", CITED, 'CITATION = "Someone else"'),
    ("__init__.py", '__version__ = "', '__version__ = "9.'),
    ("algorithms/fedavg_all.py", "cohort.total", "cohort.t"),
    ("datasets/mnist5k.yaml", "licence:", "licence: other"),
    ("provenance/manifest.py", "SCHEMA_VERSION = 1", "SCHEMA_VERSION = 2"),
    ("runtime/execute.py", "ROOT = ", "HERE = ROOT = "),
    ("cli.py", "return 1", "return 3"),
]
REAL_EDITS = [
    ("core/evaluation.py", "CHUNK = 256", "CHUNK = 128"),
    ("core/rng.py", '"/".join', '"-".join'),
    ("core/local.py", "CLIP_EPSILON = 1e-6", "CLIP_EPSILON = 1e-5"),
    ("core/schedule.py", "** -0.5", "** -0.6"),
    ("cells/train.py", "set_num_threads(1)", "set_num_threads(2)"),
    ("algorithms/fedavg_active.py", "delta.mean(0)", "delta.sum(0)"),
    ("algorithms/fedavg_active.py", 'MEMORY = "d"', 'MEMORY = "m"'),
    ("datasets/mnist5k.py", "0.1307", "0.1308"),
    ("dynamics/stationary.py", "(len(t), 1)", "(len(t), 2)"),
    ("models/mlp.py", "= (64,)", "= (65,)"),
]


@pytest.mark.parametrize(("file", "old", "new"), NEUTRAL_EDITS)
def test_an_edit_that_cannot_change_a_number_keeps_the_digest(
    packages: Packages, file: str, old: str, new: str
) -> None:
    assert packages.digest(file, old, new) == packages.digest()


@pytest.mark.parametrize(("file", "old", "new"), REAL_EDITS)
def test_an_edit_of_code_changes_the_digest(packages: Packages, file: str, old: str, new: str) -> None:
    assert packages.digest(file, old, new) != packages.digest()


def test_the_digest_does_not_depend_on_where_the_code_lies(packages: Packages) -> None:
    here = code_digest(closure(MODULES))
    assert packages.digest() == here
    assert len(here) == 12


def test_digest_is_golden(packages: Packages) -> None:
    """The normal text of each module, written out by hand; its SHA-256 must not depend on the Python."""
    packages.modules(
        a='"""Text."""\nfrom fedrepro import b\nX = 1  # one\nCITATION = "c"\n',
        b='def f(x: int, *, y="q") -> int:\n    """Text."""\n    return [i**2 for i in (x,)] if y else -x\n',
        c="unused = True\n",
    )
    normal = {
        "fedrepro": "",
        "fedrepro.a": "from fedrepro import b\nX = 1",
        "fedrepro.b": "def f(x: int, *, y='q') -> int:\n    return [i ** 2 for i in (x,)] if y else -x",
    }
    found = closure(["fedrepro.a"])
    assert found == {name: sha256(text.encode()).hexdigest()[:12] for name, text in normal.items()}
    assert code_digest(found) == "2e30df04b934"


def test_order_of_the_modules_does_not_matter() -> None:
    assert code_digest({"a": "1", "b": "2"}) == code_digest({"b": "2", "a": "1"}) == "4ef55c4d7168"
    assert code_digest({"a": "1", "b": "2"}) != code_digest({"a": "2", "b": "1"})


@pytest.mark.parametrize(
    "text",
    [
        "from fedrepro import b",
        "from fedrepro.b import f",
        "import fedrepro.b",
        "import fedrepro.b as x",
        "from fedrepro import c, b as x",
        "def g():\n    from fedrepro import b",
        "if True:\n    import fedrepro.b",
    ],
)
def test_every_way_of_importing_is_followed(packages: Packages, text: str) -> None:
    packages.modules(a=text, b="import fedrepro.d", c="", d="")
    assert {"fedrepro.a", "fedrepro.b", "fedrepro.d"} <= set(closure(["fedrepro.a"]))


def test_a_docstring_alone_equals_an_empty_body(packages: Packages) -> None:
    digests = set()
    for text in (
        'def f():\n    """Text."""\n',
        "def f():\n    pass\n",
        'def f():\n    """Other."""\n    pass\n',
    ):
        packages.modules(a=text)
        digests.add(code_digest(closure(["fedrepro.a"])))
    assert len(digests) == 1


def test_a_string_that_is_no_docstring_counts(packages: Packages) -> None:
    digests = set()
    for text in ('x = "one"\n', 'x = "two"\n'):
        packages.modules(a=text)
        digests.add(code_digest(closure(["fedrepro.a"])))
    assert len(digests) == 2


def test_a_syntax_error_names_file_and_line(packages: Packages) -> None:
    root = packages.modules(a="x = 1\ny = (\n")
    with pytest.raises(FedreproError, match=rf"{root}/a\.py, line 2: "):
        closure(["fedrepro.a"])


def test_closure_of_a_training_cell() -> None:
    found = set(closure(jobs.modules("train", spec_of())))
    assert {
        "fedrepro",
        "fedrepro.cells.train",
        "fedrepro.core.engine",
        "fedrepro.core.local",
        "fedrepro.core.rng",
        "fedrepro.core.evaluation",
        "fedrepro.algorithms.fedavg_active",
        "fedrepro.models.mlp",
        "fedrepro.dynamics.stationary",
        "fedrepro.datasets.mnist5k",
    } <= found
    assert not [name for name in found if name.split(".")[1:2] and name.split(".")[1] in NEUTRAL]
    assert not [name for name in found if "fedavg_all" in name or "fedswe" in name or "cnn" in name]


def test_neutral_names_exist() -> None:
    """A renamed package must be renamed in the list too."""
    for name in NEUTRAL:
        assert (PACKAGE_ROOT / name).is_dir() or (PACKAGE_ROOT / f"{name}.py").is_file()
