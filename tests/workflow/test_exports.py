"""The exports: other tools can read them, and they say what the results say."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from rocrate.rocrate import ROCrate

from tests.workflow.conftest import Workflow

PAPERS = ("fedswe", "incentive", "partial")


@pytest.fixture(scope="module")
def exported(finished: Workflow, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the tiny tier with exports, in a copy of the workflow."""
    copy = Workflow(tmp_path_factory.mktemp("exported") / "copy")
    shutil.copytree(finished.folder, copy.folder, copy_function=shutil.copyfile)
    run = copy.snakemake("-c1", "exports")
    assert run.returncode == 0, run.stderr
    assert copy.planned("exports") == set()
    packed = copy.fedrepro("bundle", "--config", "tier=tiny")
    assert packed.returncode == 0, packed.stderr
    return copy.folder / "results/tiny"


def test_the_crate_is_read_back(exported: Path) -> None:
    crate = ROCrate(exported)
    files = {entity.id: entity for entity in crate.get_by_type("File", exact=True)}
    kinds = ("figures", "tables", "claims", "collected/*.parquet", "report")
    found = [path for kind in kinds for path in exported.glob(kind if "*" in kind else f"{kind}/*")]
    assert set(files) == {path.relative_to(exported).as_posix() for path in found}
    assert all(int(files[id]["contentSize"]) == (exported / id).stat().st_size for id in files)
    about = files["tables/partial_table2.csv"]["about"]
    assert about["name"].startswith("On Federated Averaging with Partial Participation")
    (run,) = crate.get_by_type("CreateAction")
    assert run["instrument"]["name"] == "fedrepro" and len(run["result"]) == len(files)
    starts = [json.loads(path.read_text())["started"] for path in exported.glob("cells/*/manifest.json")]
    assert crate.root_dataset["datePublished"] == max(starts)


@pytest.mark.parametrize("paper", PAPERS)
def test_codecheck_has_what_its_specification_requires(paper: str, exported: Path) -> None:
    check = yaml.safe_load((exported / "exports" / paper / "codecheck.yml").read_text())
    assert check["version"] == "https://codecheck.org.uk/spec/config/1.0/"
    assert check["paper"]["title"] and check["paper"]["reference"]
    assert all(set(person) == {"name"} for person in (*check["paper"]["authors"], *check["codechecker"]))
    files = [entry["file"] for entry in check["manifest"]]
    assert len(files) == len(set(files)) > 0 and all(entry["comment"] for entry in check["manifest"])
    root = exported.parents[1]
    assert all((root / file).is_file() for file in (*files, check["report"]))
    claims = json.loads((exported / "claims" / f"{paper}.json").read_text())["claims"]
    assert f"tier tiny: {len(claims)} claims" in check["summary"]
    assert sum(map(int, re.findall(r", (\d+) ", check["summary"]))) == len(claims)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_latex_table_has_a_row_a_claim(paper: str, exported: Path, tmp_path: Path) -> None:
    claims = json.loads((exported / "claims" / f"{paper}.json").read_text())["claims"]
    text = (exported / "exports" / paper / "claims.tex").read_text()
    body = text[text.index(r"\endfoot") : text.index(r"\end{longtable}")]
    rows = [line for line in body.splitlines() if line.endswith(r" \\")]
    assert len(rows) == len(claims)
    for row, claim in zip(rows, claims, strict=True):
        cells = re.split(r"(?<!\\)&", row.removesuffix(r"\\"))
        assert len(cells) == 4 and cells[3].strip() == claim["verdict"]
    bare = re.sub(r"\\[%&_#${}]|\\text\w+\{\}|\$(<|>|\\le|\\ge|\\pm)\$", "", body.removeprefix(r"\endfoot"))
    assert not re.findall(r"[%#$_^~{}]", bare), "what LaTeX would take for a command"
    if shutil.which("pdflatex"):
        page = tmp_path / "page.tex"
        page.write_text(
            r"\documentclass{article}\usepackage{booktabs,longtable}\begin{document}"
            + text
            + r"\end{document}"
        )
        run = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", page.name],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout[-2000:]


def test_a_bundle_has_them(exported: Path) -> None:
    with tarfile.open(exported / "bundle-tiny.tar.gz") as archive:
        names = archive.getnames()
    wanted = [f"exports/{paper}/{name}" for paper in PAPERS for name in ("codecheck.yml", "claims.tex")]
    assert {f"results/tiny/{name}" for name in (*wanted, "ro-crate-metadata.json")} <= set(names)
