"""The report: one self-contained HTML page."""

import base64
import json
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from fedrepro import __version__
from fedrepro.claims.verdicts import VERDICTS
from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.outputs.report_claims import claims_of, counts, number
from fedrepro.outputs.stamp import stamp
from fedrepro.plan.cards import card
from fedrepro.plan.deviations import Deviation, check_affects
from fedrepro.provenance.files import read_json
from fedrepro.runtime.atomic import write_all

PIXELS_PER_CSS_PIXEL = 2  # figures are drawn for dense screens


def make_report(spec_json: str, page: Path, captions: Path, root: Path) -> None:
    """Write ``report/index.html`` from figures, tables, captions and collected experiments.

    Parameters
    ----------
    spec_json : str
        Papers, targets and data sets to show (``Plan.report_spec``).
    page : Path
        The file to write, ``<results of the tier>/report/index.html``.
    captions : Path
        Folder with one ``<target>.rst`` each and the page's template.
    root : Path
        The workflow's folder, for the deviation ledgers.
    """
    spec, folder = json.loads(spec_json), page.parent.parent
    names = spec["experiments"]
    sidecars = {n: read_json(folder / "collected" / f"{n}.parquet.json") for n in names}
    cells = {n: read_json(folder / "collected" / f"{n}.cells.json") for n in names}
    known = {*registry.names("figure"), *registry.names("table")}  # selected or not
    ledgers = {  # by paper: an id may stand in the ledgers of several
        paper: check_affects(root / "config" / "papers" / paper / "deviations.yaml", known)
        for paper in spec["papers"]
    }
    ordered = sorted(spec["targets"], key=lambda target: target["kind"], reverse=True)  # tables first
    targets = [_target(item, folder, captions, sidecars, cells, ledgers[item["paper"]]) for item in ordered]
    manifests = {cell: facts for item in cells.values() for cell, facts in item["cells"].items()}
    missing = {cell: why for item in sidecars.values() for cell, why in item["missing"].items()}
    starts = [facts["started"][:16].replace("T", " ") for facts in manifests.values()]
    environments = Counter(json.dumps(item["environment"], sort_keys=True) for item in manifests.values())
    claims = {name: claims_of(folder, name, spec["tier"], targets) for name in spec["claims"]}
    every = [claim for found in claims.values() for claim in found]
    content = _template(captions).render(
        version=__version__,
        tier=spec["tier"],
        papers=[
            {
                "name": name,
                **facts,
                "targets": [
                    t | {"claims": [c for c in every if t in c["targets"]]}
                    for t in targets
                    if t["paper"] == name
                ],
                "claims": claims.get(name, []),
                "counts": counts(claims.get(name, [])),
            }
            for name, facts in spec["papers"].items()
        ],
        verdicts=VERDICTS,
        datasets={name: card(name) for name in spec["datasets"]},
        figures=sum(item["kind"] == "figure" for item in targets),
        tables=sum(item["kind"] == "table" for item in targets),
        cells={
            "used": len(manifests),
            "planned": len(manifests) + len(missing),
            "diverged": sum(item["status"] == "diverged" for item in manifests.values()),
        },
        missing=len(missing),
        missing_cells=missing,
        cost={
            "seconds": sum(item["seconds"] for item in manifests.values()),
            "memory": max(item["peak_memory_bytes"] for item in manifests.values()),
        },
        experiments=[_experiment(name, sidecars[name], cells[name]) for name in names],
        environments=[(json.loads(text), count) for text, count in environments.most_common()],
        systems=_systems(item["environment"] for item in manifests.values()),
        started=(min(starts), max(starts)),
        inputs=_inputs(manifests.values()),
        deviations=ledgers,
        cited={
            paper: {id: [c for c in claims.get(paper, []) if id in c["deviations"]] for id in ledger}
            for paper, ledger in ledgers.items()
        },
        shown={target["name"] for target in targets},
        commit=commit(root),
    )
    write_all({page: content.encode()})


def commit(root: Path) -> str:
    """Commit of the workflow as the page is written, ``-dirty`` where files differ; empty without git."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    question = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()


def _template(folder: Path) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template("index.html.j2")


def _target(
    target: dict[str, Any],
    folder: Path,
    captions: Path,
    sidecars: dict[str, dict[str, Any]],
    cells: dict[str, dict[str, Any]],
    ledger: dict[str, Deviation],
) -> dict[str, Any]:
    name = target["name"]
    shown: dict[str, Any] = target | {
        "heading": _heading(name),
        "caption": (captions / f"{name}.rst").read_text().strip(),
        "stamps": stamp(sidecars[need] for need in target["needs"]).lines,
        "where": target["where"] or "; ".join(cells[need]["where"] for need in target["needs"]),
        "deviations": [id for id, item in ledger.items() if name in item.affects],
    }
    files = sorted((folder / f"{target['kind']}s").glob(f"{name}.*"))
    shown["files"] = [str(path.relative_to(folder)) for path in files if path.suffix != ".html"]
    if target["kind"] == "figure":
        image = _read(folder / "figures" / f"{name}.png")
        shown["image"] = base64.b64encode(image).decode()
        shown["width"] = struct.unpack(">I", image[16:20])[0] // PIXELS_PER_CSS_PIXEL
    else:
        shown["html"] = Markup(_read(folder / "tables" / f"{name}.html").decode())
    return shown


def _heading(name: str) -> str:
    """``fedswe_fig07a`` is Figure 7a, ``fedswe_theory`` is Theory."""
    kind, number = re.fullmatch(r".*_([a-z]+?)(?:0*(\d+[a-z]*))?", name).groups()  # type: ignore[union-attr]
    return " ".join(filter(None, ("Figure" if kind == "fig" else kind.capitalize(), number)))


def _experiment(name: str, sidecar: dict[str, Any], cells: dict[str, Any]) -> dict[str, Any]:
    manifests: Iterable[dict[str, Any]] = cells["cells"].values()
    return {
        "name": name,
        "cells": len(cells["cells"]),
        "missing": len(sidecar["missing"]),
        "seconds": sum(item["seconds"] for item in manifests),
        "code": sorted({item["code"] for item in manifests}),
        "sha256": sidecar["sha256"],
    }


def _systems(environments: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """What the cells ran on, in short: every value of these keys of their environments."""
    facts = list(environments)
    keys = ("device", "machine", "python", "torch")
    found = {key: sorted({str(item[key]) for item in facts if key in item}) for key in keys}
    return {key: values for key, values in found.items() if values}


def _inputs(manifests: Iterable[dict[str, Any]]) -> dict[str, str]:
    """SHA-256 of every file of a data set that a cell has read, by path."""
    files = [
        item["inputs"][name] for item in manifests for name in ("train", "test") if name in item["inputs"]
    ]
    return dict(sorted((file["path"], file["sha256"]) for file in files))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedreproError(f"{path} is missing; run snakemake to make it") from error
