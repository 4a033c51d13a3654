"""The claims of the report: counts of verdicts, and what each claim opens to."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedrepro.claims.verdicts import VERDICTS
from fedrepro.plan.claims import BY
from fedrepro.presentation.forest import forest
from fedrepro.provenance.files import read_json

RULES = {
    "SF": "sign-flip test, difference above {margin:g}",
    "NI": "sign-flip test, not worse by more than {margin:g}",
    "EQ": "two sign-flip tests, equal within {margin:g}",
    "RT": "sign-flip test, ratio {side} {ratio:g}",
    "IN": "interval {side}",
    "PT": "permutation test of two unpaired samples",
    "VAL": "90 % interval of ours minus published inside ± {margin:g}",
    "MC": "within three standard errors and half a printed digit",
    "BND": "an inequality, exact or by its 99 % limit",
    "EX": "an equation or relation, exact up to its tolerance",
    "CSV": "counted on the printed numbers; a tie is no win",
    "ARG": "an argument, and numbers that show it",
}
DEFAULTS = {"margin": 0.0, "ratio": 1.0, "above": False, "low": -math.inf, "high": math.inf, "cells": "every"}


def words(rule: Mapping[str, Any]) -> str:
    """A rule as a reader is told it."""
    facts: dict[str, Any] = DEFAULTS | dict(rule)
    facts["side"] = "above" if facts["above"] else "below"
    if facts["name"] == "IN":
        low, high = facts["low"], facts["high"]
        one_sided = f"below {high:g}" if low == -math.inf else f"above {low:g}"
        facts["side"] = one_sided if math.inf in (-low, high) else f"inside [{low:g}, {high:g}]"
    cells = facts["cells"]
    where = f"in {cells} part" if isinstance(cells, str) else f"in at least {cells:g} parts"
    if isinstance(cells, float) and cells < 1:
        where = f"in at least {cells:.0%} of the parts"
    return f"{RULES[facts['name']].format(**facts)}; {where}"


def claims_of(
    folder: Path, paper: str, tier: str, targets: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The claims of a paper, each with what it opens to and the figures and tables made from its cells."""
    claims = read_json(folder / "claims" / f"{paper}.json")["claims"]
    return [_shown(claim, paper, tier, targets) for claim in claims]


def counts(claims: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of verdicts by what decides the claims; only what there is."""
    out = []
    for by in BY:
        found = Counter(claim["verdict"] for claim in claims if claim["by"] == by)
        if found:
            out.append({"by": by, "total": found.total(), "verdicts": [found[name] for name in VERDICTS]})
    return out


def _shown(
    claim: dict[str, Any], paper: str, tier: str, targets: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    experiments = [f"{paper}_{need}" for need in claim["needs"]]
    option = "" if tier == "demo" else f" --config tier={tier}"
    tests = [
        test
        | {
            "words": words(test["rule"]),
            "plot": Markup(forest(test["parts"], f"Effects and intervals of {claim['id']}")),
        }
        for test in claim["tests"]
    ]
    return claim | {
        "tests": tests,
        "command": f"snakemake -c2 {paper}_claims{option}",
        "rerun": f"snakemake -c2 {paper}_claims --config tier=paper",
        "experiments": experiments,
        "targets": [target for target in targets if set(target["needs"]) & set(experiments)],
    }


def number(value: float | None) -> str:
    """A number of a claim as the page shows it."""
    if value is None:
        return ""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.2e}"
