"""Deciding the claims of one paper: a CSV with one row a claim, and a JSON with the numbers behind each."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedrepro.claims.decidable import decidable
from fedrepro.claims.verdicts import Source, judge, record
from fedrepro.errors import FedreproError
from fedrepro.outputs.collected import read_collected
from fedrepro.plan.claims import load_claims
from fedrepro.plan.deviations import load_deviations
from fedrepro.plan.messages import unknown
from fedrepro.plan.plan import Plan
from fedrepro.runtime.atomic import write_all

COLUMNS = (
    "id", "star", "type", "by", "verdict", "reason", "where", "says", "effect", "low", "high", "reference",
    "n", "p", "p_mirror", "parts", "parts_agree", "parts_disagree", "decided_on", "flips", "needs",
    "deviations",
)  # fmt: skip


def make_claims(paper: str, folder: Path, collected: Sequence[Path], out: Sequence[Path]) -> None:
    """Write the verdicts of a paper's claims.

    Parameters
    ----------
    paper : str
        Short name.
    folder : Path
        ``config/papers/<paper>``, with ``claims.yaml`` and, where there are, ``reference.csv`` and
        ``deviations.yaml``.
    collected : sequence of Path
        Collected experiments that its claims need.
    out : sequence of Path
        The CSV and the JSON file.
    """
    claims = load_claims(folder / "claims.yaml")
    ledger = folder / "deviations.yaml"
    known = load_deviations(ledger) if ledger.exists() else {}
    for key, claim in claims.items():
        for deviation in claim.deviations:
            if deviation not in known:
                raise unknown(f"{folder / 'claims.yaml'}: {key}.deviations", "deviation", deviation, known)
    sources = {
        name.removeprefix(f"{paper}_"): Source(
            item.present, item.facts["published"], len(item.facts["missing"]), item.facts["planned"]
        )
        for name, item in read_collected(collected).items()
    }
    try:
        findings = judge(claims, sources, _published(folder))
    except FedreproError as error:
        raise FedreproError(f"{folder / 'claims.yaml'}: {error}") from error
    rows = [record(finding) for finding in findings]
    contents = {
        ".csv": _csv(rows),
        ".json": json.dumps({"paper": paper, "claims": rows}, indent=1, allow_nan=False) + "\n",
    }
    write_all({path: contents[path.suffix].encode() for path in out})
    counts = Counter(row["verdict"] for row in rows)
    print(
        f"{paper}: {len(rows)} claims, " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
    )


def print_decidable(plan: Plan, root: Path) -> None:
    """Per claim of the plan: whether the planned seeds can decide it, or what it needs."""
    for paper, claims in plan.claims.items():
        seeds = {
            name.removeprefix(f"{paper}_"): len(
                {json.loads(plan.cells[cell].spec)["seed"] for cell in experiment.cells}
            )
            for name, experiment in plan.experiments.items()
            if experiment.paper == paper
        }
        found = decidable(claims, seeds, _published(root / "config" / "papers" / paper))
        ready = sum(words == "decidable" for words in found.values())
        print(f"{paper}: {ready} of {len(found)} claims decidable")
        for key, words in found.items():
            print(f"  {key:<44}{words}")


def _published(folder: Path) -> pd.DataFrame:
    path = folder / "reference.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["target", "metric"])


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        part = row["deciding"] or {}
        facts = {key: part.get(key) for key in ("effect", "low", "high", "reference", "n")}
        flat = row | facts | {"decided_on": part.get("name", "")}
        flat |= {key: " ".join(row[key]) for key in ("needs", "deviations")}
        writer.writerow(flat)
    return text.getvalue()
