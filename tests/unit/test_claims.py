"""Claims: rows, rules, and verdicts that follow from numbers."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedrepro.claims import simulated
from fedrepro.claims.data import Data, NoDataError
from fedrepro.claims.decidable import decidable
from fedrepro.claims.evidence import METRICS, Limits, Measured, Part, Sample, Statement
from fedrepro.claims.rules import Rule, decide, together
from fedrepro.claims.verdicts import RULES, Source, family, judge, record, the_metric, the_rule, word
from fedrepro.core.checks import Check, table
from fedrepro.core.tables import encode
from fedrepro.errors import FedreproError
from fedrepro.outputs import report_claims
from fedrepro.outputs.claims import make_claims
from fedrepro.plan.claims import Claim, check_claims, load_claims
from fedrepro.presentation.forest import forest
from fedrepro.provenance.files import describe, sidecar_path
from fedrepro.provenance.identity import dumps

ROOT = Path(__file__).parents[2]
UP = np.array([1.0, 2.0, 1.5, 1.2, 0.8])  # five positive differences: p = 1/32
NONE = np.array([1.0, -1.0, 0.5, -0.4, 0.1])


def sample(values: Any) -> Sample:
    return Sample("part", np.asarray(values, dtype=float))


def accuracy(*values: float) -> Measured:
    return Measured("part", np.array(values), 80.5, 0.7, 3, 1)


def verdict(rule: Rule, *parts: Part) -> str:
    return word(*together(rule, decide(rule, parts)))


@pytest.mark.parametrize(
    ("rule", "part", "expected"),
    [
        (Rule("SF"), sample(UP), "agrees"),
        (Rule("SF"), sample(-UP), "disagrees"),
        (Rule("SF"), sample(NONE), "inconclusive"),
        (Rule("SF"), sample(UP[:3]), "inconclusive"),  # three seeds decide nothing
        (Rule("SF", margin=3.0), sample(UP), "disagrees"),
        (Rule("SF", margin=0.5), sample(UP), "agrees"),
        (Rule("NI", margin=1.0), sample(-0.1 * UP), "agrees"),
        (Rule("NI", margin=0.05), sample(-0.1 * UP), "disagrees"),
        (Rule("EQ", margin=1.0), sample(0.1 * NONE), "agrees"),
        (Rule("EQ", margin=0.1), sample(np.full(6, 2.0)), "disagrees"),
        (Rule("EQ", margin=0.5), sample(UP[:3]), "inconclusive"),
        (Rule("RT", ratio=1.5), sample(np.log([1.1, 1.2, 1.0, 1.3, 1.1])), "agrees"),
        (Rule("RT", ratio=1.5), sample(np.log([2.0, 2.2, 3.0, 1.9, 1.8])), "disagrees"),
        (Rule("RT", ratio=1.5, above=True), sample(np.log([2.0, 2.2, 3.0, 1.9, 1.8])), "agrees"),
        (Rule("IN", low=-0.1, high=0.1), sample([0.0, 0.01, -0.01, 0.02]), "agrees"),
        (Rule("IN", high=0.0), Limits("part", -0.5, -0.6, -0.4, 100), "agrees"),
        (Rule("IN", low=-0.1, high=0.1), Limits("part", -0.5, -0.6, -0.4, 100), "disagrees"),
        (Rule("IN", high=0.0), Limits("part", 0.0, -0.1, 0.1, 100), "inconclusive"),
        (Rule("EX"), Statement("part", 1.0, 1.0 + 1e-10), "agrees"),
        (Rule("EX"), Statement("part", 1.0, 1.0 + 1e-8), "disagrees"),
        (Rule("EX"), Statement("part", 4.838, 4.83849, "=", 5e-4), "agrees"),
        (Rule("CSV"), Statement("part", 0.0, 0.0, ">"), "disagrees"),  # a tie is no win
        (Rule("CSV"), Statement("part", 0.0, 0.1, ">"), "agrees"),
        (Rule("BND"), Statement("part", 1.0, 0.9, "<="), "agrees"),
        (Rule("BND"), Statement("part", 1.0, 1.1, "<="), "disagrees"),
        (Rule("BND"), Statement("part", 1.0, 0.95, "<=", error=0.1), "inconclusive"),
        (Rule("BND"), Statement("part", 1.0, 0.5, "<=", error=0.1), "agrees"),
        (Rule("BND"), Statement("part", 1.0, 1.5, "<=", error=0.1), "disagrees"),
        (Rule("BND"), Statement("part", 1.0, math.nan, "<="), "disagrees"),
        (Rule("EX"), Statement("part", 0.5, 0.7, "<=", refuted_at=1.0), "inconclusive"),
        (Rule("EX"), Statement("part", 0.5, 1.1, "<=", refuted_at=1.0), "disagrees"),
        (Rule("VAL", margin=3.0), accuracy(80.0, 80.5, 79.5), "agrees"),
        (Rule("VAL", margin=3.0), accuracy(70.0, 70.5, 69.5), "disagrees"),
        (Rule("VAL", margin=1.0), accuracy(80.0, 84.0, 79.5), "inconclusive"),
        (Rule("MC"), Measured("part", np.array([1.0]), 1.2, math.nan, 100, 1, 0.05, 100), "agrees"),
        (Rule("MC"), Measured("part", np.array([1.0]), 1.5, math.nan, 100, 1, 0.05, 100), "disagrees"),
    ],
)  # fmt: skip
def test_truth_table(rule: Rule, part: Part, expected: str) -> None:
    assert verdict(rule, part) == expected


def test_in_how_many_parts() -> None:
    """Every, some and a number of cells; the mirror image of each is decided with the same care."""
    good, bad, open_ = sample(np.arange(1.0, 9)), sample(-np.arange(1.0, 9)), sample(NONE)
    assert verdict(Rule("SF"), good, good) == "agrees"
    assert verdict(Rule("SF"), good, open_) == "inconclusive"
    assert verdict(Rule("SF"), good, bad) == "disagrees"  # one cell refutes "every"
    assert verdict(Rule("SF", cells="some"), good, bad) == "agrees"
    assert verdict(Rule("SF", cells="some"), bad, bad) == "disagrees"
    assert verdict(Rule("SF", cells="some"), open_, bad) == "inconclusive"
    assert verdict(Rule("SF", cells=2), good, good, bad) == "agrees"
    assert verdict(Rule("SF", cells=2), good, bad, bad) == "disagrees"
    assert verdict(Rule("SF", cells=0.6), good, good, bad) == "agrees"
    assert verdict(Rule("SF", cells=0.9), good, good, bad) == "disagrees"


def test_holm_over_the_cells_of_some() -> None:
    """Five pairs give 1/32; in one of two cells that is 1/16 after the correction, and no longer enough."""
    assert verdict(Rule("SF", cells="some"), sample(UP)) == "agrees"
    assert verdict(Rule("SF", cells="some"), sample(UP), sample(NONE)) == "inconclusive"


def test_a_rule_refuses_what_it_is_not_for() -> None:
    with pytest.raises(TypeError, match="rule EX does not apply to a Sample"):
        decide(Rule("EX"), [sample(UP)])


def write_claims(folder: Path, text: str) -> Path:
    path = folder / "toy" / "claims.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


ROW = """
toy.lemma1.bound.{part}:
  each: {part: {one: First, two: Second}}
  where: "Lemma 1"
  says: The {part} bound holds.
  by: theory
  needs: [checks]
  tests: [{metric: {name: checks, experiment: checks, check: ["{part}"]}, rule: {name: BND}}]
toy.table1.order.best:
  star: true
  where: "Table 1"
  says: Never built.
  by: training
  reason: not built
"""


def test_each_makes_one_claim_of_every_name(tmp_path: Path) -> None:
    claims = load_claims(write_claims(tmp_path, ROW))
    assert list(claims) == ["toy.table1.order.best", "toy.lemma1.bound.one", "toy.lemma1.bound.two"]
    assert claims["toy.lemma1.bound.two"].says == "The two bound holds."
    assert claims["toy.lemma1.bound.two"].tests[0].metric["check"] == ["Second"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toy.a.bound.b: {where: x, says: y, by: theory}", "either tests, or a reason"),
        (
            "toy.a.bound.b: {where: x, says: y, by: theory, comparable: false, "
            "tests: [{metric: {name: checks}, rule: {name: BND}}]}",
            "has a reason and no tests",
        ),
        ("toy.a.bond.b: {where: x, says: y, by: theory, reason: z}", "did you mean 'bound'"),
        ("toy.bound.b: {where: x, says: y, by: theory, reason: z}", "not of the form toy.<target>"),
        ("toy.a.bound.b: {where: x, says: y, by: theory, reson: z}", "did you mean 'reason'"),
        ("toy.a.bound.b: {where: x, says: y, by: magic, reason: z}", "'magic' is not allowed"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FedreproError, match=message):
        load_claims(write_claims(tmp_path, text))


def test_needs_metrics_and_rules_must_exist(tmp_path: Path) -> None:
    path = write_claims(tmp_path, ROW)
    with pytest.raises(FedreproError, match=r"toy\.lemma1\.bound\.one\.needs: unknown experiment 'checks'"):
        check_claims(path, load_claims(path), {"check": None})
    with pytest.raises(FedreproError, match="did you mean 'checks'"):
        the_metric("toy", {"name": "cheks"})
    with pytest.raises(FedreproError, match=r"metric checks: .*unexpected keyword argument 'wrong'"):
        the_metric("toy", {"name": "checks", "experiment": "x", "check": [], "wrong": 1})
    with pytest.raises(FedreproError, match="unknown rule 'SG'"):
        the_rule("toy", {"name": "SG"})
    with pytest.raises(FedreproError, match="unexpected keyword argument 'magin'"):
        the_rule("toy", {"name": "SF", "magin": 1})


def collected_checks(path: Path, computed: float, published: bool = True) -> Path:
    rows = table([Check("First", "Lemma 1", "x", 1.0, computed), Check("Second", "Lemma 1", "y", 1.0, 0.5)])
    rows = rows.append_column("status", pa.array(["ok"] * len(rows)))
    rows = rows.append_column("cell", pa.array(["analysis-toy"] * len(rows)))
    content = encode(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    facts = {"experiment": "toy_checks", "published": published, "planned": 1, "missing": {}}
    sidecar_path(path).write_text(dumps(describe(content, len(rows)) | facts))
    return path


@pytest.mark.parametrize(
    ("computed", "published", "expected"),
    [(0.9, True, "agrees"), (1.1, True, "disagrees"), (0.9, False, "not comparable")],
)
def test_the_verdict_follows_the_collected_number(
    tmp_path: Path, computed: float, published: bool, expected: str
) -> None:
    folder = write_claims(tmp_path, ROW).parent
    file = collected_checks(tmp_path / "toy_checks.parquet", computed, published)
    out = [tmp_path / "toy.csv", tmp_path / "toy.json"]
    make_claims("toy", folder, [file], out)
    found = {row["id"]: row for row in json.loads(out[1].read_text())["claims"]}
    assert found["toy.lemma1.bound.one"]["verdict"] == expected
    assert found["toy.lemma1.bound.one"]["deciding"]["effect"] == computed
    assert found["toy.table1.order.best"]["verdict"] == "not run"
    rows = pd.read_csv(out[0])
    assert list(rows["id"]) == list(found) and rows.loc[1, "verdict"] == expected


def test_without_the_experiment_nothing_is_decided(tmp_path: Path) -> None:
    out = [tmp_path / "toy.csv", tmp_path / "toy.json"]
    make_claims("toy", write_claims(tmp_path, ROW).parent, [], out)
    found = {row["id"]: row for row in json.loads(out[1].read_text())["claims"]}
    assert found["toy.lemma1.bound.one"]["verdict"] == "not run"
    assert "needs experiment checks" in found["toy.lemma1.bound.one"]["reason"]


def runs(accuracy: dict[tuple[str, int], float], model: str = "server") -> pd.DataFrame:
    """One final evaluation of every algorithm and seed."""
    fields = {
        "status": "ok", "reading": None, "evaluated": model, "split": "test", "round": 10, "rounds": 10,
        "evaluation.final_rounds": 1, "evaluation.test_every": 10, "paper_dataset": "svhn",
        "dataset": "svhn", "dynamics": "sine", "consensus_error": math.nan,
    }  # fmt: skip
    rows = [
        fields | {"cell": f"{algorithm}-{seed}", "algorithm": algorithm, "seed": seed, "accuracy": value}
        for (algorithm, seed), value in accuracy.items()
    ]
    return pd.DataFrame(rows)


def trained_claim(number: int, says: str = "A beats B.") -> tuple[str, Claim]:
    test: dict[str, Any] = {
        "metric": {
            "name": "difference", "of": "final", "ours": {"algorithm": "mifa"},
            "against": {"algorithm": "fedau"}, "within": ["paper_dataset"],
        },
        "rule": {"name": "SF"},
    }  # fmt: skip
    row = {"where": "x", "says": says, "by": "training", "needs": ["runs"], "tests": [test]}
    return f"toy.t{number}.order.a", Claim.model_validate(row)


def test_trained_claims_share_holms_correction_and_say_what_they_need() -> None:
    """Five seeds decide one claim, 1/32, but not one of two, 1/16; six decide both."""
    published = pd.DataFrame(columns=["target", "metric"])
    claims = dict(trained_claim(number) for number in (1, 2))

    def found(seeds: int, number: int) -> list[str]:
        accuracy = {
            (name, s): 0.5 + 0.1 * (name == "mifa") for name in ("mifa", "fedau") for s in range(seeds)
        }
        sources = {"runs": Source(runs(accuracy), True, 0, 2 * seeds)}
        chosen = dict(list(claims.items())[:number])
        return [f"{item.verdict} {item.reason}" for item in judge(chosen, sources, published)]

    assert found(5, 1) == ["agrees "]
    assert found(5, 2) == ["inconclusive by design: 5 pairs, at least 6 needed"] * 2
    assert found(6, 2) == ["agrees ", "agrees "]
    assert found(3, 1) == ["inconclusive by design: 3 pairs, at least 5 needed"]
    assert set(decidable(claims, {"runs": 3}, published).values()) == {"needs 6 seeds, 3 planned"}
    assert set(decidable(claims, {"runs": 6}, published).values()) == {"decidable"}
    assert set(decidable(claims, {}, published).values()) == {"needs experiment runs"}


def test_another_model_that_disagrees_is_flagged_and_decides_nothing() -> None:
    server = runs({(n, s): 0.5 + 0.1 * (n == "mifa") for n in ("mifa", "fedau") for s in range(6)})
    mean = runs({("mifa", s): 0.3 for s in range(6)}, "client_mean")
    sources = {"runs": Source(pd.concat([server, mean]), True, 0, 12)}
    (finding,) = judge(dict([trained_claim(1)]), sources, pd.DataFrame(columns=["target", "metric"]))
    assert finding.verdict == "agrees" and finding.flips
    assert [item["verdict"] for item in finding.variants] == ["disagrees"]


def test_slope_of_the_speedup_by_hand() -> None:
    """Two cells whose best means fall by 16 from S = 1 to S = 4: slope -2; trials alike leave no spread."""
    rows = [
        {"cell": f"c{sampled}", "problem": "softplus16", "sampled": sampled, "trial": trial, "round": number,
         "squared_gradient": value}
        for sampled, values in ((1, (3.0, 1.6)), (4, (0.1, 0.2)))
        for trial in (None, 0, 1)
        for number, value in enumerate(values)
    ]  # fmt: skip
    data = Data({"runs": pd.DataFrame(rows)}, pd.DataFrame(columns=["target"]))
    (found,) = simulated.speedup_slope(data, "runs", ["sampled"])
    assert isinstance(found, Limits)
    assert (found.value, found.low, found.high, found.n) == pytest.approx((-2.0, -2.0, -2.0, 2))
    one = Data({"runs": data.frames["runs"].assign(sampled=4)}, data.published)
    with pytest.raises(NoDataError, match="one value of sampled only"):
        simulated.speedup_slope(one, "runs", ["sampled"])


def test_a_claim_without_tests_is_not_run_or_not_comparable() -> None:
    row = {"where": "x", "says": "y", "by": "training", "reason": "z"}
    claims = {
        "toy.a.value.b": Claim.model_validate(row),
        "toy.a.value.c": Claim.model_validate(row | {"comparable": False}),
    }
    found = judge(claims, {}, pd.DataFrame(columns=["target"]))
    assert [(item.verdict, item.reason) for item in found] == [("not run", "z"), ("not comparable", "z")]


def test_the_median_difference_stands_beside_and_decides_nothing() -> None:
    """Published 60 and 70; ours 61 (60, 62, and a run that diverged) and 66: apart by 1 and 4, median 2.5."""
    accuracy = {("mifa", 0): 0.6, ("mifa", 1): 0.62, ("mifa", 2): math.nan, ("fedau", 0): 0.66}
    shared = {
        "target": "table2", "metric": "accuracy_percent", "split": "test", "dynamics": "sine",
        "dataset": "svhn", "algorithm.k_over_m": math.nan, "spread": 0.7, "n": 3, "decimals": 1,
    }  # fmt: skip
    values = {"mifa": 60.0, "fedau": 70.0}
    published = pd.DataFrame([shared | {"algorithm": name, "value": v} for name, v in values.items()])
    test = {
        "metric": {"name": "published_accuracy", "target": "table2", "splits": ["test"]},
        "rule": {"name": "VAL", "margin": 3.0, "cells": 0.9},
    }
    row = {"where": "x", "says": "y", "by": "training", "needs": ["runs"], "tests": [test]}
    frame = runs(accuracy).assign(**{"algorithm.k_over_m": math.nan})
    claim = {"toy.t2.value.cells": Claim.model_validate(row)}
    (finding,) = judge(claim, {"runs": Source(frame, True, 0, 4)}, published)
    (outcome,) = finding.outcomes
    assert outcome.summary == "median absolute difference 2.5 over 2 published values"
    assert len(outcome.parts) == 2
    assert record(finding)["tests"][0]["summary"] == outcome.summary


def test_missing_cells_leave_a_claim_undecided() -> None:
    frame = runs({(n, s): 0.5 + 0.1 * (n == "mifa") for n in ("mifa", "fedau") for s in range(6)})
    (finding,) = judge(
        dict([trained_claim(1)]), {"runs": Source(frame, True, 2, 14)}, pd.DataFrame(columns=["target"])
    )
    assert (finding.verdict, finding.reason) == ("not run", "2 of 14 cells are missing")


def test_printed_claims_of_fedswe_by_hand() -> None:
    """Table 7: FedSWE needs 40 rounds to 20 % on SVHN, FedAvg over active 20: a factor 2, not slightly more.
    Table 2, sine on CIFAR-10: 65.8 against 69.1 with known probabilities, by more than the spread of 1.8."""
    path = ROOT / "config/papers/fedswe/claims.yaml"
    claims = {k: c for k, c in load_claims(path).items() if c.by == "arithmetic"}
    found = {item.id: item for item in judge(claims, {}, pd.read_csv(path.with_name("reference.csv")))}
    early = found["fedswe.t7.printed.early"]
    assert early.verdict == "disagrees" and early.deciding and early.deciding.effect == 2.0
    assert found["fedswe.t2.printed.unaided"].verdict == "agrees"
    aided = found["fedswe.t2.printed.aided"]
    assert aided.verdict == "disagrees" and aided.deciding and aided.deciding.effect == pytest.approx(-3.3)
    assert {item.verdict for item in found.values()} <= {"agrees", "disagrees"}


def test_following_the_page_add_a_claim(tmp_path: Path) -> None:
    """The row of the page is valid, and decided as it says: 47.9 against 46.9, and 48.3 against 47.5."""
    page = (ROOT / "docs/add-a-claim.md").read_text()
    (row,) = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.M | re.S)
    path = tmp_path / "fedswe" / "claims.yaml"
    path.parent.mkdir()
    path.write_text(row)
    published = pd.read_csv(ROOT / "config/papers/fedswe/reference.csv")
    (finding,) = judge(load_claims(path), {}, published)
    assert finding.verdict == "agrees"
    assert [part.effect for part in finding.outcomes[0].parts] == pytest.approx([0.8, 1.0])
    higher = published.assign(value=published["value"].where(published["algorithm"] != "mifa", 50.0))
    (finding,) = judge(load_claims(path), {}, higher)
    assert finding.verdict == "disagrees"


def test_forest_draws_parts_with_an_effect() -> None:
    """A circle an effect, a bar an interval; one dashed line, or a mark a row where references differ."""
    part = {"name": "a < b", "effect": 1.0, "low": 0.5, "high": 1.5, "reference": 0.0, "verdict": "agrees"}
    point = part | {"low": None, "high": None}
    text = forest([part, point, part | {"effect": None}], "Effects")
    assert text.count("<circle") == 2 and text.count('stroke-width="2"') == 1
    assert text.count("stroke-dasharray") == 1 and text.count("<line") == 2
    assert "a &lt; b" in text and 'aria-label="Effects"' in text
    text = forest([part, point | {"reference": 2.0}], "Effects")
    assert "stroke-dasharray" not in text and text.count("<line") == 1 + 2
    assert forest([point | {"effect": None}], "Effects") == ""


def test_the_report_has_words_for_every_rule() -> None:
    assert set(report_claims.RULES) == set(RULES)


def test_spreads_are_pooled_within_an_algorithm() -> None:
    """Beside a cell that scatters by 4 points a steady one agrees, where they are of different algorithms."""
    steady = Measured("steady", np.array([80.0, 80.5, 79.5]), 80.5, 0.7, 3, 1, pool="mifa")
    wild = Measured("wild", np.array([76.0, 80.0, 84.0]), 80.0, 4.0, 3, 1, pool="fedau")
    alone, beside = (decide(Rule("VAL", margin=3.0), parts)[0] for parts in ([steady], [steady, wild]))
    assert alone == beside and beside.agrees == 0.0
    mixed = decide(Rule("VAL", margin=3.0), [replace(steady, pool="fedau"), wild])[0]
    assert mixed.agrees == 1.0


def test_the_median_of_several_rivals() -> None:
    """0.9 against rivals at 0.1, 0.2 and 0.6: 70 points above their median, 60 above their mean."""
    values = {"mifa": 0.9, "fedau": 0.1, "fedvarp": 0.2, "gfedavg": 0.6}
    data = Data({"runs": runs({(name, 3): value for name, value in values.items()})}, pd.DataFrame())
    both: list[float] = []
    for median in (True, False):
        (part,) = METRICS["difference"](
            data, "final", {"algorithm": "mifa"}, {"algorithm": ["fedau", "fedvarp", "gfedavg"]},
            ["paper_dataset"], median=median,
        )  # fmt: skip
        both.append(float(part.values[0]))
    assert both == pytest.approx([70.0, 60.0])


def test_training_and_peak_accuracy_stand_beside_a_claim() -> None:
    """MIFA wins on test images, loses on training images, and its peak is no higher."""
    names = [(name, seed) for name in ("mifa", "fedau") for seed in range(6)]
    test = runs({(n, s): 0.5 + 0.1 * (n == "mifa") for n, s in names})
    train = runs({(n, s): 0.5 - 0.1 * (n == "mifa") for n, s in names}).assign(split="train")
    early = runs(dict.fromkeys(names, 0.7)).assign(round=5)
    sources = {"runs": Source(pd.concat([early, test, train]), True, 0, 12)}
    key, claim = trained_claim(1)
    claim = claim.model_copy(update={"beside": ["peak"]})
    (finding,) = judge({key: claim}, sources, pd.DataFrame(columns=["target", "metric"]))
    assert finding.verdict == "agrees" and finding.flips
    found = {item["accuracy"]: item["verdict"] for item in finding.variants if item["model"] == "server"}
    assert found == {"train": "disagrees", "peak": "inconclusive"}


def test_who_shares_holms_correction() -> None:
    """Sampled claims of order, gap and trend, trained or simulated; what is exact stands alone."""
    key, claim = trained_claim(1)
    exact = [test.model_copy(update={"rule": {"name": "EX"}}) for test in claim.tests]
    claims = {
        key: claim,
        "toy.t2.order.b": claim.model_copy(update={"by": "simulation"}),
        "toy.t3.order.c": claim.model_copy(update={"by": "simulation", "tests": exact}),
        "toy.t4.order.d": claim.model_copy(update={"by": "theory"}),
        "toy.t5.rounds_to.e": claim,
    }
    assert family(claims) == [key, "toy.t2.order.b"]


def test_a_tie_is_neither_slower_nor_below() -> None:
    """60 against 40 rounds is no less than 1.5 times as many; 40 against 40 is no lag."""
    rows = [
        {"target": "table7", "dataset": "svhn", "target_percent": percent, "algorithm": name, "value": value}
        for percent, pair in ((20, (60, 40)), (40, (40, 40)), (60, (50, 40)))
        for name, value in zip(("mifa", "fedau"), pair, strict=True)
    ]
    empty = ["dynamics", "dynamics.gamma", "partition.alpha", "split", "algorithm.k_over_m", "spread"]
    data = Data({}, pd.DataFrame(rows).assign(**dict.fromkeys(empty, math.nan)))
    parts = METRICS["printed_rounds"](data, "mifa", "fedau", [1, 2, 3], ["svhn"], below=1.5, above=1.0)
    assert [item.agrees == 0 for item in decide(Rule("CSV"), parts)] == [True, False, False, True, True, True]
