"""Cards of data sets, and getting what a plan needs; the URLs of the cards lead to this machine."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedrepro.cli import main
from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.plan import cards
from fedrepro.plan.cards import DatasetCard, card, prepare_spec, raw_files
from fedrepro.plan.config import read_yaml
from fedrepro.plan.plan import make_plan
from fedrepro.provenance.files import checked
from fedrepro.provenance.identity import canonical_json
from tests.archives import Host, Small, serve, small, write_card
from tests.helpers import ROOT

DOWNLOADED = [name for name in registry.names("dataset") if card(name).files]
PUBLISHED = {
    "svhn": (73_257, 26_032), "cifar10": (50_000, 10_000), "cinic10": (90_000, 90_000),
    "mnist": (60_000, 10_000), "fashion_mnist": (60_000, 10_000), "mnist5k": (4_000, 1_000),
}  # fmt: skip
STAND_INS = {name: small(name) for name in DOWNLOADED}


@pytest.fixture
def host() -> Iterator[Host]:
    with serve() as made:
        for name, stand_in in STAND_INS.items():
            made.offer(name, stand_in.files)
        yield made


@pytest.fixture
def site(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Cards of small stand-ins, an empty folder to work in, and no variables of the site."""
    for name, stand_in in STAND_INS.items():
        write_card(tmp_path / f"{name}.yaml", name, stand_in, host.url)
    made = {name: DatasetCard.model_validate(read_yaml(tmp_path / f"{name}.yaml")) for name in STAND_INS} | {
        "mnist5k": card("mnist5k")
    }
    for module in ("cards", "fetch"):
        monkeypatch.setattr(f"fedrepro.plan.{module}.card", made.__getitem__)
    for variable in ("FEDREPRO_DATA", "FEDREPRO_MIRROR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return host


def test_sizes_are_the_published_ones() -> None:
    assert {
        name: (card(name).samples["train"], card(name).samples["test"]) for name in PUBLISHED
    } == PUBLISHED
    assert set(PUBLISHED) == set(registry.names("dataset"))


@pytest.mark.parametrize("name", DOWNLOADED)
def test_every_file_has_a_checksum(name: str) -> None:
    assert all(file.checksum.startswith("md5:") for file in card(name).files.values())


def test_the_embedded_data_set_keeps_its_specification() -> None:
    sha256 = "116356584b3a172cab8e864640b2d802a262359680d07ff969c0d6dc617f0a6b"
    assert canonical_json(prepare_spec("mnist5k")) == f'{{"dataset":"mnist5k","sha256":"{sha256}"}}'
    assert raw_files("mnist5k") == {}


def test_a_specification_holds_checksums_and_counts_but_no_url() -> None:
    text = canonical_json(prepare_spec("svhn"))
    assert "md5:e26dedcc434d2e4c54c9b2d4a06d8373" in text and "[4948,13861," in text
    assert "http" not in text and "licence" not in text


CARDS: dict[str, tuple[dict[str, Any], str]] = {
    "checksum": ({"checksum": "md5:abc"}, "files.train.checksum': 'md5:abc' is not allowed"),
    "made up kind": ({"checksum": "crc:1"}, "files.train.checksum': 'crc:1' is not allowed"),
    "path as name": ({"name": "../x"}, "files.train.name': '../x' is not allowed"),
    "no source": ({"urls": []}, r"files.train.urls': \[\] is not allowed"),
    "local source": ({"urls": ["/tmp/x"]}, "files.train.urls.0': '/tmp/x' is not allowed"),
    "no bytes": ({"bytes": 0}, "files.train.bytes': 0 is not allowed"),
    "typo": ({"byte": 1}, "unknown key 'files.train.byte'.*did you mean 'bytes'"),
}


@pytest.mark.parametrize("case", CARDS)
def test_a_wrong_card_names_its_key(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, words = CARDS[case]
    facts = read_yaml(registry.PACKAGE_ROOT / "datasets" / "svhn.yaml")
    facts["files"]["train"] |= change
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "svhn.yaml").write_text(yaml.safe_dump(facts))
    monkeypatch.setattr(registry, "PACKAGE_ROOT", tmp_path)
    cards.card.cache_clear()
    try:
        with pytest.raises(FedreproError, match=rf"svhn\.yaml: .*{words}"):
            card("svhn")
    finally:
        cards.card.cache_clear()


@pytest.mark.parametrize(
    ("drop", "words"), [("files", "give sha256, .* or files"), ("test", "counts must hold")]
)
def test_an_incomplete_card_is_refused(drop: str, words: str) -> None:
    facts = read_yaml(registry.PACKAGE_ROOT / "datasets" / "svhn.yaml")
    (facts if drop == "files" else facts["counts"]).pop(drop)
    with pytest.raises(ValueError, match=words):
        DatasetCard.model_validate(facts)


def fetched(name: str, stand_in: Small) -> bool:
    return all(
        Path(path).read_bytes() == stand_in.files[key] and checked(Path(path))
        for key, path in raw_files(name).items()
    )


@pytest.mark.parametrize("name", DOWNLOADED)
def test_fetch_gets_a_named_data_set(name: str, site: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", name]) == 0
    assert fetched(name, STAND_INS[name])
    assert len(site.asked) == len(STAND_INS[name].files)
    assert all(path in capsys.readouterr().out for path in list(raw_files(name).values())[:1])
    assert main(["data", "fetch", name]) == 0
    assert len(site.asked) == len(STAND_INS[name].files), "nothing is fetched twice"


def test_fetch_gets_all_that_a_tier_needs(site: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "--config", "tier=paper"]) == 0
    for name in ("svhn", "cifar10", "cinic10", "mnist"):
        assert fetched(name, STAND_INS[name])
    assert {path.split("/")[1] for path, _ in site.asked} == {"svhn", "cifar10", "cinic10", "mnist"}
    assert main(["data", "fetch"]) == 0
    assert "nothing to download for mnist5k" in capsys.readouterr().out


def test_status_says_what_is_there(site: Host, capsys: pytest.CaptureFixture[str]) -> None:
    main(["data", "fetch", "svhn"])
    Path(raw_files("svhn")["test"]).unlink()
    part = Path(raw_files("cinic10")["archive"] + ".part")
    part.parent.mkdir(parents=True)
    archive = STAND_INS["cinic10"].files["archive"]
    part.write_bytes(archive[: len(archive) // 2])
    wrong = Path(raw_files("cifar10")["archive"])
    wrong.parent.mkdir()
    wrong.write_bytes(b"1234")
    capsys.readouterr()
    assert main(["data", "status", "--config", "tier=paper"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"train_32x32\.mat  0\.\d MB  verified", said)
    assert re.search(r"test_32x32\.mat  0\.\d MB  missing", said)
    assert re.search(r"CINIC-10\.tar\.gz  0\.\d MB  50% there", said)
    assert re.search(r"cifar-10-python\.tar\.gz  0\.\d MB  wrong: 4 bytes instead of", said)
    assert "not prepared" in said and wrong.read_bytes() == b"1234", "status changes nothing"


def test_names_are_checked(site: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "svnh"]) == 1
    assert "unknown data set 'svnh'; did you mean 'svhn'?" in capsys.readouterr().err
    assert main(["download", "svhn", "train_32x32.ma"]) == 1
    assert "unknown file 'train_32x32.ma'; did you mean 'train_32x32.mat'?" in capsys.readouterr().err


def test_an_unknown_checksum_is_said(site: Host, capsys: pytest.CaptureFixture[str]) -> None:
    file = cards.card("svhn").files["test"].model_copy(update={"checksum": "unknown"})
    cards.card("svhn").files["test"] = file
    assert main(["data", "fetch", "svhn"]) == 0
    path = raw_files("svhn")["test"]
    assert f"{path}: no checksum is published; SHA-256 {checked(Path(path))}" in capsys.readouterr().out


def test_the_paper_tier_plans_the_papers_data_sets() -> None:
    plan = make_plan(ROOT, {"tier": "paper"})
    assert set(plan.datasets) == {"svhn", "cifar10", "cinic10", "mnist", "mnist5k"}
    assert plan.datasets["svhn"].inputs == {
        "train": "results/data/raw/svhn/train_32x32.mat", "test": "results/data/raw/svhn/test_32x32.mat"
    }  # fmt: skip
    assert set(make_plan(ROOT, {"tier": "demo"}).datasets) == {"mnist5k"}
