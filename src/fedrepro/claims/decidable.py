"""What can be decided before anything runs: per claim, how many seeds its rule needs."""

import math
from collections.abc import Mapping

import pandas as pd
from scipy import stats

from fedrepro.claims.verdicts import family
from fedrepro.plan.claims import Claim
from fedrepro.stats.permutation import runs_needed
from fedrepro.stats.sign_flip import LEVEL, pairs_needed

SEEDED_RULES = ("SF", "NI", "EQ", "RT")


def decidable(
    claims: Mapping[str, Claim], seeds: Mapping[str, int], published: pd.DataFrame
) -> dict[str, str]:
    """Per claim: ``decidable``, ``needs n seeds``, ``no number of our seeds``, or why it is not built.

    A sign-flip test over n seeds has no p value below 2^-n; under Holm's correction over K claims one of them
    can be decided where 2^-n <= 0.05 / K. A comparison with published means over three runs is never narrower
    than the spread of those.

    Parameters
    ----------
    claims : mapping
        Of one paper, by id.
    seeds : mapping
        Numbers of seeds of the planned experiments, by their name in the grid.
    published : DataFrame
        The paper's reference.csv.
    """
    members = family(claims)
    return {key: _one(key, claim, members, seeds, published) for key, claim in claims.items()}


def _one(
    key: str, claim: Claim, members: list[str], seeds: Mapping[str, int], published: pd.DataFrame
) -> str:
    if claim.reason:
        return claim.reason
    lacking = [need for need in claim.needs if need not in seeds]
    if lacking:
        return f"needs experiment {', '.join(lacking)}"
    if claim.by != "training":
        return "decidable"
    for test in claim.tests:
        if test.rule["name"] == "VAL" and _too_wide(test.rule, published):
            return "no number of our seeds can decide it: the published means are too uncertain"
    rules = {test.rule["name"] for test in claim.tests}
    if rules & {*SEEDED_RULES, "PT"}:
        number = len(members) if key in members else 1
        needed = pairs_needed(number) if rules & set(SEEDED_RULES) else runs_needed(number)
        have = min(seeds[need] for need in claim.needs)
        if have < needed:
            return f"needs {needed} seeds, {have} planned"
    return "decidable"


def _too_wide(rule: Mapping[str, object], published: pd.DataFrame) -> bool:
    """Whether more cells than the rule can spare have a published interval wider than the margin."""
    spreads = published.loc[published["metric"] == "accuracy_percent", ["spread", "n"]].dropna()
    half = stats.norm.isf(LEVEL) * spreads["spread"] / spreads["n"].map(math.sqrt)
    share = float((half <= float(str(rule["margin"]))).mean())
    cells = rule.get("cells", 1.0)
    return share < (float(cells) if isinstance(cells, int | float) else 1.0)
