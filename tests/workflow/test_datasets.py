"""Data sets through the workflow: downloaded from a server on this machine, prepared, used, and not again."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedrepro.plan.cards import card, raw_files
from tests.archives import DEBIAN, Host, Small, published_fashion_mnist, serve, small, tar, write_card
from tests.workflow.conftest import Workflow, copy_workflow

PAPERS = ("svhn", "cifar10", "cinic10")
STAND_INS = {name: small(name) for name in PAPERS}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def host() -> Iterator[Host]:
    with serve() as made:
        for name, stand_in in STAND_INS.items():
            made.offer(name, stand_in.files)
        yield made


def offered(folder: Path, base: str) -> Workflow:
    """A workflow whose cards describe the stand-ins and lead to a server."""
    made = copy_workflow(folder)
    for name, stand_in in STAND_INS.items():
        write_card(card_file(made, name), name, stand_in, base)
    images = len(STAND_INS["cifar10"].splits["train"][1])
    shards = [images // 5] * 4 + [images - 4 * (images // 5)]
    made.edit("config/papers/incentive/grid.yaml", "[12500, 6667, 15000, 5000, 10833]", str(shards))
    return made


@pytest.fixture
def fresh(host: Host, tmp_path: Path) -> Workflow:
    return offered(tmp_path / "fresh", host.url)


@pytest.fixture
def offline(tmp_path: Path) -> Workflow:
    return offered(tmp_path / "offline", NOWHERE)


def card_file(workflow: Workflow, name: str) -> Path:
    return workflow.folder / f"src/fedrepro/datasets/{name}.yaml"


def prepared(*names: str) -> list[str]:
    return [f"results/data/{name}/{split}.npy" for name in names for split in ("train", "test")]


def make(workflow: Workflow, *targets: str, cores: int = 2) -> str:
    run = workflow.snakemake(f"-c{cores}", *targets, tier="paper")
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def refused(workflow: Workflow, *words: str, target: str) -> None:
    run = workflow.snakemake("-c1", "--show-failed-logs", target, tier="paper")
    said = run.stdout + run.stderr
    assert run.returncode != 0 and "Traceback" not in said, said
    for word in words:
        assert word in said, f"{word!r} is not in:\n{said}"


def planned(workflow: Workflow, *targets: str) -> set[str]:
    return workflow.planned(*targets, tier="paper")


def by_hand(workflow: Workflow, name: str, stand_in: Small) -> list[Path]:
    paths = [workflow.folder / path for path in raw_files(name).values()]
    for path, content in zip(paths, stand_in.files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


def test_downloaded_prepared_and_not_again(fresh: Workflow, host: Host) -> None:
    targets = prepared(*PAPERS)
    said = make(fresh, *targets)
    for name, stand_in in STAND_INS.items():
        for split, (images, labels) in stand_in.splits.items():
            records = np.load(fresh.folder / f"results/data/{name}/{split}.npy", mmap_mode="r")
            assert (records["image"] == images).all() and (records["label"] == labels).all()
    assert len(host.asked) == 4 and "download cinic10/CINIC-10.tar.gz" in said
    assert planned(fresh, *targets) == set()

    for path in fresh.folder.rglob("*"):
        if path.is_file():
            path.touch()
    for name in PAPERS:
        file = card_file(fresh, name)
        text = file.read_text().replace(host.url, NOWHERE).replace("licence: ", "licence: other, ")
        file.write_text(text.replace("citation: ", "citation: See "))
    assert planned(fresh, *targets) == set(), "a mirror, a licence, a citation, a touch"
    for path in fresh.folder.glob("results/data/raw/*/*"):
        if path.suffix != ".json":
            path.unlink()
    assert planned(fresh, *targets) == set(), "once prepared, raw files may go"
    touched = fresh.snakemake("--touch", "--forceall", "-c1", *targets, tier="paper")
    assert touched.returncode == 0, touched.stderr
    assert planned(fresh, *targets) == set()


def test_a_new_checksum_prepares_again(fresh: Workflow) -> None:
    targets = prepared("svhn", "cifar10")
    make(fresh, *targets)
    other = small("cifar10", seed=2)
    file = card_file(fresh, "cifar10")
    write_card(file, "cifar10", other, NOWHERE)
    assert planned(fresh, *targets) == {"prepare cifar10"}
    refused(fresh, "is not the published file", "Run snakemake again to download it", target=targets[2])
    by_hand(fresh, "cifar10", other)
    make(fresh, *targets)
    records = np.load(fresh.folder / targets[2])
    assert (records["image"] == other.splits["train"][0]).all()


def test_a_file_put_there_by_hand_is_used(offline: Workflow) -> None:
    paths = by_hand(offline, "svhn", STAND_INS["svhn"])
    before = [path.stat() for path in paths]
    make(offline, *prepared("svhn"))
    forced = offline.snakemake("-c1", "--forceall", *prepared("svhn"), tier="paper")
    assert forced.returncode == 0, forced.stderr
    after = [path.stat() for path in paths]
    assert [(s.st_ino, s.st_mtime) for s in after] == [(s.st_ino, s.st_mtime) for s in before]


def test_offline_says_which_file_to_put_where(offline: Workflow) -> None:
    file = card("cinic10").files["archive"]
    size = len(STAND_INS["cinic10"].files["archive"])
    words = (
        f"put the file ({size:,} bytes, md5:",
        f"results/data/raw/cinic10/{file.name}",
        "FEDREPRO_MIRROR",
    )
    refused(offline, "Connection refused", *words, target=prepared("cinic10")[0])
    assert not list(offline.folder.glob("results/data/raw/cinic10/*.json"))
    assert not (offline.folder / "results/data/cinic10/train.npy").exists()


def test_a_damaged_file_is_never_used(fresh: Workflow) -> None:
    """Put there by hand, and damaged after it was checked."""
    (path,) = by_hand(fresh, "cifar10", Small({"archive": b"<html>"}, {}))
    make(fresh, *prepared("cifar10"))
    content = path.read_bytes()
    assert content == STAND_INS["cifar10"].files["archive"]
    path.chmod(0o644)
    path.write_bytes(content[:-1] + b"x")
    shutil.rmtree(fresh.folder / "results/data/cifar10")
    refused(fresh, "is not the published file: md5:", "instead of md5:", target=prepared("cifar10")[0])
    assert not path.exists() and not (fresh.folder / "results/data/cifar10/train.npy").exists()
    make(fresh, *prepared("cifar10"))
    assert path.read_bytes() == content


def test_a_hostile_archive_is_refused(offline: Workflow) -> None:
    """With the right checksum, as from a card that trusts the wrong source."""
    stand_in = Small({"archive": tar({"train/cat/1.png": b"", "../../../evil.png": b"x"})}, {})
    write_card(card_file(offline, "cinic10"), "cinic10", stand_in, NOWHERE)
    by_hand(offline, "cinic10", stand_in)
    refused(offline, "is refused: '../../../evil.png'", target=prepared("cinic10")[0])
    assert not list(offline.folder.parent.rglob("evil.png"))
    assert not (offline.folder / "results/data/cinic10/train.npy").exists()


def test_mirror_and_folder_of_a_site(offline: Workflow, host: Host, tmp_path: Path) -> None:
    mirrored = replace(offline, variables={"FEDREPRO_MIRROR": host.url})
    make(mirrored, *prepared("svhn"))
    assert {path for path, _ in host.asked} == {"/svhn/train_32x32.mat", "/svhn/test_32x32.mat"}
    shared = tmp_path / "shared" / "cifar10"
    shared.mkdir(parents=True)
    (shared / "cifar-10-python.tar.gz").write_bytes(STAND_INS["cifar10"].files["archive"])
    make(replace(offline, variables={"FEDREPRO_DATA": str(shared.parent)}), *prepared("cifar10"))
    assert [path.name for path in shared.iterdir()] == ["cifar-10-python.tar.gz"]
    assert planned(offline, *prepared("svhn", "cifar10")) == set()


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_fashion_mnist_from_the_real_files(tmp_path: Path) -> None:
    """The shipped card, the published files, 60,000 images over 100 clients, and a cell of six rounds."""
    workflow = copy_workflow(tmp_path / "fashion")
    folder = published_fashion_mnist(tmp_path / "site")
    grid = "config/papers/fedswe/grid.yaml"
    tiny = "      tiny:\n        datasets: {svhn: mnist5k}\n        set:\n          partition: {clients: 8}"
    workflow.edit(grid, tiny, tiny.replace("mnist5k", "fashion_mnist").replace("clients: 8", "clients: 100"))
    workflow = replace(workflow, variables={"FEDREPRO_DATA": str(folder)})
    listed = workflow.planned("fedswe_table2")
    (cell,) = (job.split()[1] for job in listed if "-sine-fedavg_active-" in job)
    assert {job for job in listed if job.startswith("download")} == {
        f"download fashion_mnist/{file.name}" for file in card("fashion_mnist").files.values()
    }
    out = f"results/tiny/cells/{cell}"
    run = workflow.snakemake("-c2", f"{out}/manifest.json")
    assert run.returncode == 0, run.stdout + run.stderr
    metrics = pd.read_parquet(workflow.folder / out / "metrics.parquet")
    assert metrics["round"].max() == 6 and metrics["loss"].notna().all()
    for _, losses in metrics.groupby("split", observed=True)["loss"]:
        assert losses.iloc[-1] < losses.iloc[0], "it learns"
    (partition,) = workflow.folder.glob("results/tiny/partitions/fashion_mnist-m100-*.parquet")
    clients = pd.read_parquet(partition)
    assert len(clients) == 60_000 and clients["client"].nunique() == 100
    assert clients["label"].value_counts().tolist() == [6000] * 10
    assert workflow.planned(f"{out}/manifest.json") == set()
