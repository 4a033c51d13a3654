"""Figures and the table of the partial-participation paper, on small frames made by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrepro.core.problem import admissible_step
from fedrepro.figures import partial_fig3, partial_theorem2
from fedrepro.presentation.scalar import averages, last, log_slope
from fedrepro.problems import softplus16
from fedrepro.tables import partial_table2


def scalar_rows(cell: str, values: list[float], **facts: Any) -> pd.DataFrame:
    """A cell's rows: single trials at the last round 10, and their average; the gap at round 0 is 4."""
    shared = {"cell": cell, "status": "ok", "rounds": 10} | facts
    count = len(values)
    mean = {"trials": count, "trial": float("nan")}
    rows: list[dict[str, Any]] = [mean | {"round": 0, "gap": 4.0, "squared_gradient": 9.0}]
    rows.append(mean | {"round": 10, "gap": np.mean(values), "squared_gradient": np.mean(values)})
    spread = np.std(values, ddof=1) / math.sqrt(count)
    for row in rows:
        row |= {"gap_se": spread, "squared_gradient_se": spread}
    for trial, value in enumerate(values):
        rows.append({"trials": 1, "trial": trial, "round": 10, "gap": value, "squared_gradient": value})
    return pd.DataFrame([row | shared for row in rows])


def test_averages_choose_the_trials() -> None:
    """100 trials stand for the paper's figures, all of them for the comparison; 95 % of t with n - 1."""
    frame = pd.DataFrame(
        {
            "cell": "c", "trial": float("nan"), "trials": [100, 1000], "gap": [1.0, 2.0],
            "gap_se": [0.1, 0.01], "squared_gradient": 0.0, "squared_gradient_se": 0.0,
        }
    )  # fmt: skip
    assert averages(frame)["gap"].item() == 1.0
    assert averages(frame)["gap_ci"].item() == pytest.approx(0.19842, abs=1e-5)
    assert averages(frame, all_trials=True)["gap"].item() == 2.0


def test_log_slope() -> None:
    x = np.array([1.0, 10.0, 100.0])
    assert log_slope(x, 3 * x**0.5) == pytest.approx(0.5)
    assert math.isnan(log_slope(x, np.array([-1.0, -1.0, 2.0])))


def test_d_q_by_hand() -> None:
    """Q = 4, T = 10, S = 4: Delta_f = 4, sigma = 9, so the denominator is (4 + 6) sqrt(36/39) / sqrt(10).

    The trials' numerators are 2 * (3, 5) - sqrt(40) * (0.1, 0.3).
    """
    facts = {"problem.d_max": 200.0}
    cells = [
        ("a", [3.0, 5.0], 4, 4),
        ("b", [0.1, 0.3], 40, 4),
        ("c", [3.0, 5.0], 4, 16),
        ("d", [0.1, 0.3], 40, 16),
    ]
    frame = pd.concat(
        [scalar_rows(c, values, sampled=s, local_steps=q, **facts) for c, values, s, q in cells]
    )
    measures = pd.DataFrame({"problem.d_max": [200.0], "sigma_f_star": [9.0]})
    found = partial_fig3.data({"partial_fig3": frame, "partial_heterogeneity": measures})
    scale = 10 * math.sqrt(36 / 39) / math.sqrt(10)
    expected = np.array([6 - math.sqrt(40) * 0.1, 10 - math.sqrt(40) * 0.3]) / scale
    panel = found[found["panel"] == "b"]
    assert list(panel["value"]) == pytest.approx([expected.mean()] * 2)
    half_width = 12.7062 * expected.std(ddof=1) / math.sqrt(2)  # t quantile with one degree of freedom
    assert panel["half_width"].iloc[0] == pytest.approx(half_width, rel=1e-4)
    assert panel["exponent"].iloc[0] == pytest.approx(0, abs=1e-12), "the same residuals at both Q"
    assert panel["level"].iloc[0] == pytest.approx(expected.mean()), "the same at both Q: no term in 1/Q"
    assert panel["noise"].iloc[0] == pytest.approx(0, abs=1e-9)
    assert len(found[found["panel"] == "a"]) == 4


def test_theorem_2_knows_which_steps_are_admitted() -> None:
    """Figure 1's problem with S = 1: 0.0003 meets (20) for T = 50,000, the paper's 0.001 does not."""
    facts = {"problem": "softplus16", "sampled": 1, "local_steps": 5, "step_size_of": "step"}
    frames = {}
    for name, step in (("partial_theorem2", 0.0003), ("partial_fig1", 0.001)):
        frames[name] = scalar_rows(name, [0.1, 0.3], step_size=step, **facts).assign(rounds=50000)
    empty = frames["partial_fig1"].iloc[:0]
    found = partial_theorem2.data(frames | {"partial_table2": empty, "partial_fig3": empty})
    admitted, violating = (row for _, row in found.iterrows())
    assert admitted["admitted"] and admitted["bound"] > 0 and not violating["admitted"]
    assert violating["ratio"] == pytest.approx(0.001 / admissible_step(softplus16, 1, 5, 50000))
    assert math.isnan(violating["bound"]) and violating["minimum"] == pytest.approx(0.2)


def table(ours: float, spread: float) -> Any:
    """One published cell, 2e-3 over 100 runs; ours is over 300 trials."""
    facts = {"problem.d_max": 20.0, "sampled": 4}
    rows = []
    for step in partial_table2.READINGS:
        row = {"cell": f"c{step}", "status": "ok", "round": 5, "rounds": 5, "trials": 300, "trial": math.nan}
        row |= {"gap": ours, "gap_se": spread, "squared_gradient": 0.0, "squared_gradient_se": 0.0}
        rows.append(row | facts | {"step_size": step})
    measures = pd.DataFrame(
        {"problem.d_max": [20.0], "bgd_sum": [0.956], "sigma_f_star": [4.838], "status": ["ok"]}
    )
    reference = pd.DataFrame(
        {
            "problem.d_max": 20.0, "sampled": [math.nan, math.nan, 4.0],
            "metric": ["bgd_sum", "sigma_f_star", "last_iterate_gap"], "locator": "II",
            "value": [0.956, 4.838, 2e-3], "n": [math.nan, math.nan, 100], "source": "own",
        }
    )  # fmt: skip
    frames = {"partial_table2": pd.DataFrame(rows), "partial_heterogeneity": measures}
    return partial_table2.build(frames, reference)


def test_table_2_compares_with_the_published_mean() -> None:
    """Standard deviation 1e-4 sqrt(300); z = 1e-3 / (1e-4 sqrt(300) sqrt(1/300 + 1/100)) = 10 / 2 = 5."""
    made = table(3e-3, 1e-4)
    gap = made.rows[made.rows["metric"] == "last_iterate_gap"].iloc[0]
    assert gap["z"] == pytest.approx(5.0) and gap["ratio"] == pytest.approx(1.5)
    (_, measures), (headline, lines), (printed, _) = made.groups
    assert [cell.text for cell in measures[1]] == [
        "D max = 20: sigma_f*", "4.8380", "exact", "4.838", "1.0000", "",
    ]  # fmt: skip
    assert [cell.text for cell in lines[0]] == [
        "D max = 20, S = 4", "3.00e-03", "1.0e-04", "2.00e-03", "1.50", "+5.0",
    ]  # fmt: skip
    assert "headline" in headline and "as printed" in printed
    assert "|z| < 3 in 0 of 1 cells, largest 5.0" in made.notes[1]


def test_last_rows() -> None:
    frame = pd.DataFrame({"round": [0, 5, 9], "rounds": [5, 5, 9]})
    assert list(last(frame)["round"]) == [5, 9]
