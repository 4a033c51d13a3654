"""The rules: how parts become p values of a claim and of its mirror image.

=====  ===================================================================================================
SF     one-sided sign-flip test on the differences minus ``margin``
NI     not worse by more than ``margin``: SF on the differences plus ``margin``
EQ     equal within ``margin``: two one-sided sign-flip tests
RT     ratio below ``ratio``: SF on log ratio; ``above: true`` claims the ratio above it
IN     interval (90 % of a mean) inside [``low``, ``high``]; disagrees where it is wholly outside
PT     one-sided permutation test of two unpaired samples, the first one larger in the mean
VAL    90 % interval of ours minus published inside +- ``margin``, spreads pooled over the algorithm's cells
MC     Monte Carlo mean within three combined standard errors plus half a printed digit
=====  ===================================================================================================

A statement is decided exactly under every rule, a sampled one by its 99 % limit. Four rules are for
statements, so that a report can say how: BND, a bound; EX, an equation; CSV, counted on published numbers;
ARG, an argument and the numbers that show it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from fedrepro.claims.evidence import Decided, Limits, Measured, Part, Sample, Statement, TwoSamples
from fedrepro.stats.holm import holm
from fedrepro.stats.intervals import interval, t_limits
from fedrepro.stats.permutation import larger
from fedrepro.stats.sign_flip import both_sides, equivalent, sign_flip

LEVEL = 0.05
BOUND_LIMIT = 0.99
STANDARD_ERRORS = 3.0
EXACT_RULES = ("BND", "EX", "CSV", "ARG")


@dataclass(frozen=True)
class Rule:
    """A rule and its margins; which of them it uses is said in the module's docstring.

    ``cells``: in how many of a claim's parts it must hold: ``every``, ``some`` (then with Holm's correction
    over them), a number of them, or a share below 1.
    """

    name: str
    margin: float = 0.0
    ratio: float = 1.0
    above: bool = False
    low: float = -math.inf
    high: float = math.inf
    cells: str | int | float = "every"


def decide(rule: Rule, parts: Sequence[Part]) -> list[Decided]:
    """Every part under a rule.

    Raises
    ------
    TypeError
        If the rule does not apply to a part.
    """
    measured = [part for part in parts if isinstance(part, Measured)]
    pooled = {name: _pooled(measured, name) for name in {part.pool for part in measured}}
    out = []
    for part in parts:
        if isinstance(part, Statement):
            out.append(_statement(part))
        elif isinstance(part, Limits) and rule.name == "IN":
            agrees, disagrees = _between(part.low, part.high, rule)
            found = (part.value, part.low, part.high, part.n, _middle(rule))
            out.append(Decided(part.name, agrees, disagrees, *found))
        elif isinstance(part, Sample) and rule.name in SAMPLE_RULES:
            out.append(_sample(part, rule))
        elif isinstance(part, TwoSamples) and rule.name == "PT":
            out.append(_unpaired(part))
        elif isinstance(part, Measured) and rule.name in ("VAL", "MC"):
            out.append(_monte_carlo(part) if rule.name == "MC" else _published(part, rule, pooled[part.pool]))
        else:
            raise TypeError(f"rule {rule.name} does not apply to a {type(part).__name__}")
    return out


def together(rule: Rule, parts: Sequence[Decided]) -> tuple[float, float]:
    """The p values of a claim about several parts, and of its mirror image.

    For *every* part the claim's p is the largest, and one part that contradicts refutes it, after Holm's
    correction over the parts; for *some* part it is the other way round. For c of n parts the p value is the
    c-th smallest, so that the claim holds where c parts pass, and n - c + 1 parts that contradict refute it.
    """
    agrees, disagrees = sorted(part.agrees for part in parts), sorted(part.disagrees for part in parts)
    count = len(parts)
    if rule.cells == "every":
        needed = count
    elif rule.cells == "some":
        needed = 1
    else:
        share = float(rule.cells)
        needed = min(count, math.ceil(share * count - 1e-9) if share < 1 else int(share))
    against = count - needed
    return (
        min(holm(agrees)) if needed == 1 else agrees[needed - 1],
        min(holm(disagrees)) if against == 0 else disagrees[against],
    )


def _pooled(parts: Sequence[Measured], pool: str) -> tuple[float, int]:
    """Standard deviation pooled over the cells of a pool, ours and published, and its degrees of freedom."""
    total, freedom = 0.0, 0
    for part in parts:
        if part.pool == pool and part.error is None:
            for spread, n in (
                (np.std(part.values, ddof=1) if len(part.values) > 1 else 0.0, len(part.values)),
                (part.spread, part.published_n),
            ):
                if n > 1 and not math.isnan(spread):
                    total += (n - 1) * float(spread) ** 2
                    freedom += n - 1
    return (math.sqrt(total / freedom) if freedom else math.nan), freedom


def _statement(part: Statement) -> Decided:
    half = float(stats.norm.ppf(BOUND_LIMIT)) * part.error
    beyond = part.excess - part.slack if math.isfinite(part.computed) else math.nan
    strict = part.relation in ("<", ">")
    holds = beyond + half < 0 if strict else beyond + half <= 0
    fails = beyond - half >= 0 if strict else beyond - half > 0
    if not math.isfinite(part.computed):
        holds, fails = False, True
    elif part.refuted_at is not None:
        fails = fails and abs(part.computed - part.stated) >= abs(part.refuted_at - part.stated)
    return Decided(
        part.name,
        0.0 if holds else 1.0,
        0.0 if fails else 1.0,
        part.computed,
        part.computed - half if part.error else math.nan,
        part.computed + half if part.error else math.nan,
        1,
        part.stated,
        part.relation,
        part.vacuous,
        part.note,
    )


def _superiority(values: Any, rule: Rule) -> tuple[float, float]:
    return both_sides(values - rule.margin)


def _non_inferiority(values: Any, rule: Rule) -> tuple[float, float]:
    return both_sides(values + rule.margin)


def _equivalence(values: Any, rule: Rule) -> tuple[float, float]:
    outside = min(holm([sign_flip(values - rule.margin), sign_flip(-values - rule.margin)]))
    return equivalent(values, rule.margin), outside


def _ratio(values: Any, rule: Rule) -> tuple[float, float]:
    below = math.log(rule.ratio) - values
    return both_sides(-below if rule.above else below)


def _inside(values: Any, rule: Rule) -> tuple[float, float]:
    return _between(*interval(values, 1 - 2 * LEVEL), rule)


def _between(low: float, high: float, rule: Rule) -> tuple[float, float]:
    inside = rule.low <= low and high <= rule.high
    outside = low > rule.high or high < rule.low
    return 0.0 if inside else 1.0, 0.0 if outside else 1.0


def _middle(rule: Rule) -> float:
    """What an interval is held against: the only limit there is, or the middle of two."""
    limits = [limit for limit in (rule.low, rule.high) if math.isfinite(limit)]
    return sum(limits) / len(limits) if limits else 0.0


SAMPLE_RULES: dict[str, Callable[[Any, Rule], tuple[float, float]]] = {
    "SF": _superiority,
    "NI": _non_inferiority,
    "EQ": _equivalence,
    "RT": _ratio,
    "IN": _inside,
}


def _sample(part: Sample, rule: Rule) -> Decided:
    values = part.values[np.isfinite(part.values)]
    lost = len(part.values) - len(values)
    note = f"{lost} of {len(part.values)} runs without a value" if lost else ""
    if not len(values):
        return Decided(part.name, 1.0, 1.0, math.nan, math.nan, math.nan, 0, note=note)
    agrees, disagrees = SAMPLE_RULES[rule.name](values, rule)
    low, high = interval(values)
    nulls = {"SF": rule.margin, "NI": -rule.margin, "RT": math.log(rule.ratio), "IN": _middle(rule)}
    null = nulls.get(rule.name, 0.0)
    return Decided(
        part.name, agrees, disagrees, float(values.mean()), low, high, len(values), null, note=note
    )


def _unpaired(part: TwoSamples) -> Decided:
    one, two = (values[np.isfinite(values)] for values in (part.values, part.others))
    if not len(one) or not len(two):
        return Decided(part.name, 1.0, 1.0, math.nan, math.nan, math.nan, 0)
    low, high = math.nan, math.nan
    if len(one) > 1 and len(two) > 1 and (np.ptp(one) or np.ptp(two)):
        found = stats.ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
        low, high = float(found.low), float(found.high)
    difference = float(one.mean() - two.mean())
    number = min(len(one), len(two))
    return Decided(part.name, larger(one, two), larger(two, one), difference, low, high, number)


def _published(part: Measured, rule: Rule, pooled: tuple[float, int]) -> Decided:
    """90 % interval of ours minus published against the margin."""
    values = part.values[np.isfinite(part.values)]
    if not len(values):
        return Decided(part.name, 1.0, 1.0, math.nan, math.nan, math.nan, 0, part.published)
    spread, freedom = pooled
    error = spread * math.sqrt(1 / len(values) + 1 / part.published_n)
    difference = float(values.mean()) - part.published
    low, high = t_limits(difference, error, freedom + 1, 1 - 2 * LEVEL)
    inside = -rule.margin <= low and high <= rule.margin
    outside = low > rule.margin or high < -rule.margin
    return Decided(
        part.name, 0.0 if inside else 1.0, 0.0 if outside else 1.0,
        difference, low, high, len(values), 0.0, note=f"published {part.published:g}",
    )  # fmt: skip


def _monte_carlo(part: Measured) -> Decided:
    """Within three standard errors of the difference, the published one from our distribution."""
    assert part.error is not None and part.n is not None
    ours = float(part.values.mean())
    error = part.error * math.sqrt(part.n / part.published_n + 1)
    allowed = STANDARD_ERRORS * error + 0.5 * 10.0**-part.decimals
    difference = ours - part.published
    holds = abs(difference) <= allowed
    return Decided(
        part.name, 0.0 if holds else 1.0, 1.0 if holds else 0.0,
        difference, difference - allowed, difference + allowed, part.n, 0.0,
        note=f"ours {ours:.3g}, published {part.published:.3g}",
    )  # fmt: skip
