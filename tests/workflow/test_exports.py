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


def test_the_crate_has_what_its_versions_require(exported: Path) -> None:
    """RO-Crate 1.1 and Process Run Crate 0.5, whatever the library's newest; no lists of one."""
    written = json.loads((exported / "ro-crate-metadata.json").read_text())
    assert written["@context"] == "https://w3id.org/ro/crate/1.1/context"
    entities = {entity["@id"]: entity for entity in written["@graph"]}
    assert entities["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = entities["./"]
    for key in ("license", "conformsTo"):
        assert entities[root[key]["@id"]]["@type"] == "CreativeWork" and entities[root[key]["@id"]]["name"]
    assert root["conformsTo"]["@id"].startswith("https://w3id.org/ro/wfrun/process/")
    assert entities["#run"]["agent"] == root["author"] and entities["#run"]["description"]
    values = [value for entity in entities.values() for value in entity.values()]
    assert not [value for value in values if isinstance(value, list) and len(value) < 2]
    named = [
        item["@id"] for v in values for item in (v if isinstance(v, list) else [v]) if isinstance(item, dict)
    ]
    assert {id for id in named if not id.startswith("https://w3id.org/ro/crate/")} <= set(entities)


@pytest.mark.parametrize("paper", PAPERS)
def test_codecheck_has_what_its_specification_requires(paper: str, exported: Path) -> None:
    text = (exported / "exports" / paper / "codecheck.yml").read_text(encoding="utf-8")
    assert text.startswith("%YAML 1.1\n---\n"), "the document must be explicit"
    check = yaml.safe_load(text)
    assert all(len(person["name"].split()) > 1 for person in check["paper"]["authors"]), "first and last name"
    assert not [file["file"] for file in check["manifest"] if Path(file["file"]).is_absolute()]
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


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH")
def test_latex_compiles_and_fits_the_page(exported: Path, tmp_path: Path) -> None:
    """Every table and list of claims, in an article with the packages that their first lines name."""
    files = [*exported.glob("exports/*/claims.tex"), *exported.glob("tables/*.tex")]
    assert len(files) == len(PAPERS) + len(list(exported.glob("tables/*.csv")))
    for file in files:
        page = tmp_path / f"{file.parent.name}-{file.name}"
        packages = r"\usepackage{array,booktabs,longtable,pdflscape}"
        page.write_text(
            rf"\documentclass{{article}}{packages}\begin{{document}}{file.read_text()}\end{{document}}"
        )
        for _ in range(2):  # longtable finds its widths by reading them back
            run = subprocess.run(
                ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", page.name],
                cwd=tmp_path, capture_output=True, encoding="utf-8", errors="replace", check=False,
            )  # fmt: skip
            assert run.returncode == 0, f"{file.name}: {run.stdout[-2000:]}"
        over = map(float, re.findall(r"Overfull \\hbox \(([\d.]+)pt", run.stdout))
        assert max(over, default=0) < 10, f"{file.name} is wider than the page"  # points, of 345
        assert "Missing character" not in run.stdout and "too large for page" not in run.stdout


def test_a_bundle_has_them(exported: Path) -> None:
    with tarfile.open(exported / "bundle-tiny.tar.gz") as archive:
        names = archive.getnames()
    wanted = [f"exports/{paper}/{name}" for paper in PAPERS for name in ("codecheck.yml", "claims.tex")]
    assert {f"results/tiny/{name}" for name in (*wanted, "ro-crate-metadata.json")} <= set(names)
