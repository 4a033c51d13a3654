"""What other tools read of the results: an RO-Crate, and per paper a CODECHECK file and a LaTeX table."""

import json
import mimetypes
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from fedrepro import __version__
from fedrepro.outputs.report_claims import number
from fedrepro.presentation.tables import paragraphs, tex
from fedrepro.provenance.files import read_json
from fedrepro.runtime.atomic import write_all

CODECHECK_VERSION = "https://codecheck.org.uk/spec/config/1.0/"
CRATE = "ro-crate-metadata.json"
CRATE_VERSION = "1.1"  # what the profile below extends
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"  # Process Run Crate
TYPES = {".parquet": "application/vnd.apache.parquet", ".md": "text/markdown", ".tex": "application/x-tex"}


def make_exports(spec_json: str, folder: Path, root: Path) -> None:
    """Write ``ro-crate-metadata.json`` and ``exports/<paper>/{codecheck.yml,claims.tex}``.

    The crate (https://www.researchobject.org/ro-crate) has the results folder of the tier as its root and
    follows the Process Run Crate profile; the workflow lies outside it, so that it is no Workflow RO-Crate.
    The CODECHECK file (https://codecheck.org.uk/spec/config/1.0) belongs into the root of a published
    repository, where its paths lead to the same files. The same results give the same bytes.

    Parameters
    ----------
    spec_json : str
        Papers, targets and data sets (``Plan.report_spec``).
    folder : Path
        Results of the tier, with a finished report.
    root : Path
        The workflow's folder, for ``CITATION.cff``.
    """
    spec = json.loads(spec_json)
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    claims = {name: read_json(folder / "claims" / f"{name}.json")["claims"] for name in spec["claims"]}
    started = _last_start(folder, spec["experiments"])
    contents = {folder / CRATE: _crate(spec, folder, citation, started)}
    for paper, facts in spec["papers"].items():
        targets = [target for target in spec["targets"] if target["paper"] == paper]
        found = claims.get(paper, [])
        check = _codecheck(facts, targets, found, folder, citation, started)
        contents[folder / "exports" / paper / "codecheck.yml"] = check
        contents[folder / "exports" / paper / "claims.tex"] = _latex(facts, found).encode()
    write_all(contents)


def _last_start(folder: Path, experiments: Sequence[str]) -> str:
    """When the last cell was started, ISO 8601: the date of the results, the same however often exported."""
    cells = (read_json(folder / "collected" / f"{name}.cells.json")["cells"] for name in experiments)
    return max(manifest["started"] for facts in cells for manifest in facts.values())


def _files(folder: Path, target: Mapping[str, Any]) -> list[Path]:
    return sorted((folder / f"{target['kind']}s").glob(f"{target['name']}.*"))


def _codecheck(
    facts: Mapping[str, Any],
    targets: Sequence[Mapping[str, Any]],
    claims: Sequence[Mapping[str, Any]],
    folder: Path,
    citation: Mapping[str, Any],
    started: str,
) -> bytes:
    verdicts = Counter(claim["verdict"] for claim in claims)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
    content = {
        "version": CODECHECK_VERSION,
        "paper": {
            "title": facts["title"],
            "authors": [{"name": name} for name in facts["authors"].split(", ")],
            "reference": f"{facts['authors']}: {facts['title']}",
        },
        "manifest": [
            {"file": path.as_posix(), "comment": f"{target['kind']} {target['name']}"}
            for target in targets
            for path in _files(folder, target)
            if path.suffix in (".pdf", ".csv")
        ],
        "codechecker": [{"name": person["name"]} for person in citation["authors"]],
        "summary": f"Reproduced by fedrepro {__version__}, tier {folder.name}: {len(claims)} claims"
        + (f", {counts}." if claims else "."),
        "check_time": started,
        "report": (folder / "report" / "index.html").as_posix(),
    }
    if "repository-code" in citation:
        content["repository"] = citation["repository-code"]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, version=(1, 1)).encode()


def _latex(facts: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> str:
    """A table of all claims: what the paper says, its number, ours with interval, and the verdict."""
    lines = [
        "% needs the packages array, booktabs and longtable",
        r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{longtable}}{{{paragraphs((44, 14, 24, 12))}}}",
        rf"\caption{{Claims of \emph{{{tex(facts['title'])}}}}} \\",
        r"\toprule",
        r"Claim & Paper & Ours & Verdict \\",
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
    ]
    for claim in claims:
        part = claim["deciding"] or {}
        paper = f"{part.get('relation', '')} {number(part.get('reference'))}".strip()
        ours = number(part.get("effect"))
        if part.get("low") is not None and part.get("high") is not None:
            ours += f" [{number(part['low'])}, {number(part['high'])}]"
        cells = [f"{claim['says']} ({claim['where']})", paper, ours, claim["verdict"]]
        lines.append(" & ".join(map(tex, cells)) + r" \\")
    return "\n".join([*lines, r"\end{longtable}", r"\endgroup", ""])


def _crate(spec: Mapping[str, Any], folder: Path, citation: Mapping[str, Any], started: str) -> bytes:
    crate = ROCrate(version=CRATE_VERSION)
    crate.name = f"Results of fedrepro, tier {spec['tier']}"
    crate.description = f"Collected cells, figures, tables and verdicts of {citation['title']}"
    licence = f"https://spdx.org/licenses/{citation['license']}"
    crate.license = _entity(crate, licence, "CreativeWork", name=citation["license"], url=licence)
    crate.root_dataset["conformsTo"] = _entity(
        crate, PROFILE, "CreativeWork", name="Process Run Crate", version=PROFILE.rsplit("/", 1)[1]
    )
    crate.datePublished = started
    home = {"url": citation["repository-code"]} if "repository-code" in citation else {}
    authors = [
        _entity(crate, f"#author-{i}", "Organization", name=person["name"], **home)
        for i, person in enumerate(citation["authors"])
    ]
    crate.root_dataset["author"] = _compact(authors)
    papers = {
        name: _entity(
            crate, f"#paper-{name}", "ScholarlyArticle", name=facts["title"], author=facts["authors"]
        )
        for name, facts in spec["papers"].items()
    }
    crate.root_dataset["citation"] = _compact(list(papers.values()))
    made = []
    for target in spec["targets"]:
        for path in _files(folder, target):
            made.append(_file(crate, folder, path, f"{target['kind']} {target['name']}"))
            made[-1]["about"] = papers[target["paper"]]
    for name in spec["claims"]:
        for path in sorted((folder / "claims").glob(f"{name}.*")):
            made.append(_file(crate, folder, path, f"verdicts of {name}"))
            made[-1]["about"] = papers[name]
    for name in spec["experiments"]:
        path = folder / "collected" / f"{name}.parquet"
        made.append(_file(crate, folder, path, f"collected cells of {name}"))
    made.append(_file(crate, folder, folder / "report" / "index.html", "report"))
    software = _entity(
        crate, "#fedrepro", "SoftwareApplication", name="fedrepro", softwareVersion=__version__, **home
    )
    run = _entity(
        crate, "#run", "CreateAction", name="run of the workflow", endTime=started,
        description=f"Runs all cells of tier {spec['tier']} and makes figures, tables, verdicts, report",
    )  # fmt: skip
    run["instrument"], run["result"], run["agent"] = software, made, _compact(authors)
    crate.root_dataset["mentions"] = run
    return (json.dumps(crate.metadata.generate(), indent=1, ensure_ascii=False) + "\n").encode()


def _entity(crate: ROCrate, id: str, type: str, **facts: str) -> Any:
    return crate.add(ContextEntity(crate, id, properties={"@type": type, **facts}))


def _compact(entities: list[Any]) -> Any:
    """A single value instead of a list of one, as RO-Crate 1.1 wants it."""
    return entities[0] if len(entities) == 1 else entities


def _file(crate: ROCrate, folder: Path, path: Path, name: str) -> Any:
    media = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    facts = {"name": name, "contentSize": str(path.stat().st_size), "encodingFormat": media}
    return crate.add_file(path, path.relative_to(folder).as_posix(), properties=facts)
