"""From claims and collected tables to verdicts. None is set by hand: each follows from parts and rules."""

import inspect
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedrepro.claims import games, participation, printed, simulated, theory, trained
from fedrepro.claims.data import Data, NoDataError, View
from fedrepro.claims.evidence import METRICS, Decided, Measured, Metric, Part, Sample
from fedrepro.claims.rules import EXACT_RULES, LEVEL, SAMPLE_RULES, Rule, decide, together
from fedrepro.core import registry
from fedrepro.errors import FedreproError
from fedrepro.plan.claims import IN_FAMILY, Claim, kind
from fedrepro.plan.messages import unknown
from fedrepro.presentation.naming import display
from fedrepro.stats.holm import holm_by_name
from fedrepro.stats.sign_flip import pairs_needed

MODULES = (games, participation, printed, simulated, theory, trained)  # whose metrics are registered
RULES = (*EXACT_RULES, *SAMPLE_RULES, "PT", "VAL", "MC")
VERDICTS = ("agrees", "disagrees", "inconclusive", "not comparable", "not run")
MODELS = ("server", "client_mean")
ON_FINAL_ACCURACY = ("interior_peak", "best_compromise")  # metrics that need not be told so
ALGORITHMS = {name: display(name) for name in registry.names("algorithm")}


@dataclass(frozen=True)
class Source:
    """A collected experiment: its present rows, and what its sidecar says of them."""

    frame: pd.DataFrame
    published: bool
    missing: int
    planned: int


@dataclass(frozen=True)
class Outcome:
    """One test of a claim: what was decided on every part, and p values of the claim and its mirror image."""

    metric: str
    rule: Rule
    parts: list[Decided]
    agrees: float
    disagrees: float
    pairs: int | None  # smallest number of paired differences in a part; None where nothing is tested
    summary: str = ""  # over all parts; decides nothing


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict and all numbers behind it."""

    id: str
    claim: Claim
    verdict: str
    reason: str
    agrees: float = math.nan  # p values, after Holm's correction where the claim belongs to the family
    disagrees: float = math.nan
    outcomes: list[Outcome] = field(default_factory=list)
    variants: list[dict[str, Any]] = field(default_factory=list)
    flips: bool = False

    @property
    def deciding(self) -> Decided | None:
        """The part that speaks least for the claim."""
        if not self.outcomes:
            return None
        weakest = max(self.outcomes, key=lambda outcome: outcome.agrees)
        return max(weakest.parts, key=lambda part: (part.agrees, -part.disagrees))


def the_rule(where: str, row: Mapping[str, Any]) -> Rule:
    """A row's rule, checked."""
    if row.get("name") not in RULES:
        raise unknown(f"{where}: rule.name", "rule", row.get("name"), RULES)
    try:
        return Rule(**row)
    except TypeError as error:
        raise FedreproError(f"{where}: rule: {error}") from error


def the_metric(where: str, row: Mapping[str, Any]) -> tuple[Metric, dict[str, Any]]:
    """A row's metric and its parameters, checked against the function's own."""
    options = dict(row)
    name = options.pop("name", None)
    if name not in METRICS:
        raise unknown(f"{where}: metric.name", "metric", name, METRICS)
    try:
        inspect.signature(METRICS[name]).bind(None, **options)
    except TypeError as error:
        raise FedreproError(f"{where}: metric {name}: {error}") from error
    return METRICS[name], options


def outcomes(key: str, claim: Claim, data: Data) -> list[Outcome]:
    """All tests of a claim on its data.

    Raises
    ------
    NoDataError
        If a test finds no cell.
    FedreproError
        If a row names a metric or rule that does not exist, or parameters that it does not take.
    """
    out = []
    for number, test in enumerate(claim.tests):
        where = f"{key}: test {number + 1}"
        function, options = the_metric(where, test.metric)
        rule = the_rule(where, test.rule)
        found = function(data, **options)
        if not found:
            raise NoDataError(f"{where} finds no cell")
        try:
            parts = decide(rule, found)
        except TypeError as error:
            raise FedreproError(f"{where}: {error}") from error
        agrees, disagrees = together(rule, parts)
        pairs = [part.n for item, part in zip(found, parts, strict=True) if isinstance(item, Sample)]
        name = str(test.metric["name"])
        least = min(pairs, default=None)
        out.append(Outcome(name, rule, parts, agrees, disagrees, least, _summary(found)))
    return out


def _summary(parts: Sequence[Part]) -> str:
    """How far values are from the published ones, by the median over the cells."""
    measured = [part for part in parts if isinstance(part, Measured) and np.isfinite(part.values).any()]
    if not measured:
        return ""
    apart = [abs(float(np.nanmean(part.values)) - part.published) for part in measured]
    return f"median absolute difference {np.median(apart):.3g} over {len(apart)} published values"


def combined(tests: Sequence[Outcome]) -> tuple[float, float]:
    """A claim holds where all its tests do; one that fails refutes it, after Bonferroni's correction."""
    return (
        max(test.agrees for test in tests),
        min(1.0, len(tests) * min(test.disagrees for test in tests)),
    )


def family(claims: Mapping[str, Claim]) -> list[str]:
    """Claims that share Holm's correction: order, gap and trend, where training or simulation is sampled."""
    return [
        key
        for key, c in claims.items()
        if kind(key) in IN_FAMILY
        and c.by in ("training", "simulation")
        and any(test.rule["name"] not in EXACT_RULES for test in c.tests)
    ]


def judge(
    claims: Mapping[str, Claim], sources: Mapping[str, Source], published: pd.DataFrame
) -> list[Finding]:
    """Verdicts of all claims of a paper, in their order.

    Parameters
    ----------
    claims : mapping
        Of one paper, by id.
    sources : mapping
        Collected experiments by their name in the paper's grid.
    published : DataFrame
        The paper's reference.csv, empty where it has none.
    """
    found: dict[str, list[Outcome]] = {}
    reasons: dict[str, str] = {}
    read = _Reader(sources, published)
    for key, claim in claims.items():
        lacking = [need for need in claim.needs if need not in sources]
        if claim.reason:
            reasons[key] = claim.reason
        elif lacking:
            reasons[key] = f"needs experiment {', '.join(lacking)}, which has not been run"
        else:
            try:
                found[key] = outcomes(key, claim, read(claim, View()))
            except NoDataError as error:
                reasons[key] = str(error)
    members = family(claims)
    p_values = {key: combined(tests) for key, tests in found.items()}
    for side in (0, 1):
        corrected = holm_by_name({key: p_values[key][side] if key in p_values else 1.0 for key in members})
        for key in members:
            if key in p_values:
                pair = list(p_values[key])
                pair[side] = corrected[key]
                p_values[key] = (pair[0], pair[1])
    out = []
    for key, claim in claims.items():
        if key not in found:
            out.append(Finding(key, claim, "not run" if claim.comparable else "not comparable", reasons[key]))
            continue
        verdict, reason = _verdict(
            claim, p_values[key], found[key], sources, len(members) if key in members else 1
        )
        variants = _variants(key, claim, sources, read, found[key])
        flips = any(item["flips"] for item in variants)
        out.append(Finding(key, claim, verdict, reason, *p_values[key], found[key], variants, flips))
    return out


def word(agrees: float, disagrees: float) -> str:
    """The verdict of a pair of p values."""
    return "agrees" if agrees <= LEVEL else "disagrees" if disagrees <= LEVEL else "inconclusive"


def _verdict(
    claim: Claim,
    p: tuple[float, float],
    tests: Sequence[Outcome],
    sources: Mapping[str, Source],
    members: int,
) -> tuple[str, str]:
    missing = sum(sources[need].missing for need in claim.needs)
    if missing:
        total = sum(sources[need].planned for need in claim.needs)
        return "not run", f"{missing} of {total} cells are missing"
    reduced = [need for need in claim.needs if not sources[need].published]
    if reduced:
        return "not comparable", f"not at the paper's scale: {', '.join(reduced)}"
    verdict = word(*p)
    pairs = [test.pairs for test in tests if test.pairs is not None]
    if verdict == "inconclusive" and pairs and min(pairs) < pairs_needed(members):
        return verdict, f"by design: {min(pairs)} pairs, at least {pairs_needed(members)} needed"
    return verdict, ""


class _Reader:
    """What metrics read; claims that need the same experiments under the same view share it."""

    def __init__(self, sources: Mapping[str, Source], published: pd.DataFrame) -> None:
        self._sources, self._published = sources, published
        self._known: dict[tuple[tuple[str, ...], View], Data] = {}

    def __call__(self, claim: Claim, view: View) -> Data:
        key = (tuple(claim.needs), view)
        if key not in self._known:
            frames = {need: self._sources[need].frame for need in claim.needs}
            self._known[key] = Data(frames, self._published, view)
        return self._known[key]


def _variants(
    key: str, claim: Claim, sources: Mapping[str, Source], read: _Reader, main: Sequence[Outcome]
) -> list[dict[str, Any]]:
    """The claim under other readings, models and accuracies, without correction: sensitivity."""
    if claim.by != "training":
        return []
    named = [sources[need].frame["reading"].dropna() for need in claim.needs]
    readings = list(dict.fromkeys(str(name) for column in named for name in column.unique())) or [""]
    own, out = word(*combined(main)), []
    views = [View(model, reading or None) for reading, model in itertools.product(readings, MODELS)]
    views += [View(reading=readings[0] or None, accuracy=name) for name in _other_accuracies(claim)]
    for view in views[1:]:
        try:
            tests = outcomes(key, claim, read(claim, view))
        except NoDataError:
            continue
        verdict = word(*combined(tests))
        item = asdict(view) | {"reading": view.reading or "", "verdict": verdict, "effect": _effect(tests)}
        out.append(item | {"flips": verdict != own})
    return out


def _other_accuracies(claim: Claim) -> list[str]:
    """What stands beside the final test accuracy: that in training unless it decides too, and ``beside``."""
    metrics = [test.metric for test in claim.tests]
    final = any(item.get("of") == "final" or item["name"] in ON_FINAL_ACCURACY for item in metrics)
    both = any("splits" in item for item in metrics)
    return (["train"] if final and not both else []) + claim.beside


def _effect(tests: Sequence[Outcome]) -> float:
    """Mean effect over the parts of the first test."""
    values = [part.effect for part in tests[0].parts if math.isfinite(part.effect)]
    return sum(values) / len(values) if values else math.nan


def record(finding: Finding) -> dict[str, Any]:
    """Everything about a finding, as JSON can hold it."""
    claim, part = finding.claim, finding.deciding
    parts = [part for outcome in finding.outcomes for part in outcome.parts]
    return {
        "id": finding.id,
        "type": kind(finding.id),
        **claim.model_dump(exclude={"tests", "reason", "beside", "comparable"}),
        "says": re.sub(r"\w+", lambda found: ALGORITHMS.get(found[0], found[0]), claim.says),
        "verdict": finding.verdict,
        "reason": finding.reason,
        "p": _plain(finding.agrees),
        "p_mirror": _plain(finding.disagrees),
        "parts": len(parts),
        "parts_agree": sum(part.agrees <= LEVEL for part in parts),
        "parts_disagree": sum(part.disagrees <= LEVEL for part in parts),
        "deciding": None if part is None else _part(part),
        "tests": [
            {
                "metric": outcome.metric,
                "rule": {k: v for k, v in asdict(outcome.rule).items() if v != getattr(Rule(""), k)},
                "p": _plain(outcome.agrees),
                "p_mirror": _plain(outcome.disagrees),
                "pairs": outcome.pairs,
                "summary": outcome.summary,
                "parts": [_part(part) for part in outcome.parts],
            }
            for outcome in finding.outcomes
        ],
        "variants": [item | {"effect": _plain(item["effect"])} for item in finding.variants],
        "flips": finding.flips,
    }


def _part(part: Decided) -> dict[str, Any]:
    values = {k: _plain(v) if isinstance(v, float) else v for k, v in asdict(part).items()}
    return values | {"verdict": word(part.agrees, part.disagrees)}


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
