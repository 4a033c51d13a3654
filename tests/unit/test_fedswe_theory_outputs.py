"""Figures 1, 2, 4, 5 and the table of checks of the FedSWE paper, on small frames made by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrepro.figures import fedswe_fig01, fedswe_fig02, fedswe_fig04, fedswe_fig05
from fedrepro.outputs.report import _heading
from fedrepro.tables import fedswe_theory


def test_gradient_limit_of_figure_5() -> None:
    """eta = 1/4, s = 1, U = 8: 8 for k = 0, 8/5 for k = 1; client 0 has just been active after round 1."""
    frame = pd.DataFrame(
        {
            "algorithm.k_over_m": [0.0, 0.5], "analysis.step_size": 0.25, "analysis.local_steps": 1,
            "analysis.half_gap": 8.0, "schedule": "constant", "round": [1, 2], "step_size": 0.25,
            "gradient": [1.0, 2.0], "consensus_error": 1.0,
        }
    )  # fmt: skip
    found = fedswe_fig05.data({"fedswe_fig05": frame})
    assert found["k"].tolist() == [0, 1] and found["active"].tolist() == [0, 1]
    assert found["gradient_limit"].tolist() == pytest.approx([8, 1.6])


def test_bound_of_figure_4() -> None:
    """log10(1 - bound) = -2 is a bound of 0.99."""
    columns = {name: [1.0] for name in fedswe_fig04.COLUMNS} | {
        "sampled_se": [0.5],
        "log_gap_repaired": [-2.0],
    }
    frame = pd.DataFrame(columns).drop(columns=["sampled_ci", "bound_repaired", "repetitions"])
    found = fedswe_fig04.data({"fedswe_fig04": frame.assign(**{"analysis.repetitions": 7})})
    assert found["bound_repaired"].item() == pytest.approx(0.99)
    assert found["sampled_ci"].item() == pytest.approx(0.98) and found["repetitions"].item() == 7


def test_figure_2_shows_what_there_is() -> None:
    """A coarse grid without p_1 = 0.1 and 0.3 is drawn with the two other curves."""
    p1, p2 = (axis.ravel() for axis in np.meshgrid([0.5, 1.0], [0.5, 1.0]))
    frame = pd.DataFrame({"p1": p1, "p2": p2, "step_size": 0.1, "expected": 50.0, "simulated": 50.0})
    found = fedswe_fig02.data({"fedswe_fig02": frame.assign(simulated_se=1.0)})
    figure = fedswe_fig02.draw(found)
    legend = figure.axes[1].get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert [label for label in labels if "p_1" in label] == ["$p_1 = 0.5$", "$p_1 = 1$"]


def test_figure_1_draws_every_available_round() -> None:
    frame = pd.DataFrame(
        {"client": [4, 4, 4], "round": [0, 1, 2], "probability": 0.5, "active": [True, False, True]}
    )
    figure = fedswe_fig01.draw(fedswe_fig01.data({"fedswe_fig01": frame}))
    (bars,) = figure.axes[1].collections
    starts = [np.asarray(path.vertices)[:, 0].min() for path in bars.get_paths()]
    assert starts == [0, 2] and figure.axes[1].get_xlim() == (0, 3)


def checks(**changes: Any) -> pd.DataFrame:
    row = {
        "status": "ok", "check": "A", "where": "Lemma 1", "quantity": "x", "relation": "<=", "stated": 0.0,
        "computed": 1e-15, "holds": True,
    }  # fmt: skip
    return pd.DataFrame([row | changes])


def test_table_of_checks() -> None:
    """Groups in order, the dynamics in front of the quantity, missing cells left out, failures counted."""
    frames = {
        "one": checks(dynamics="sine"),
        "two": checks(check="B", computed=2.5, holds=False),
        "three": checks(status="missing"),
    }
    table = fedswe_theory.build(frames, None)
    assert [title for title, _ in table.groups] == ["A", "B"]
    (first,), (second,) = (lines for _, lines in table.groups)
    assert [cell.text for cell in first] == [
        "Sine: x",
        "Lemma 1",
        "computed <= stated",
        "0",
        "<= 1e-12",
        "yes",
    ]
    assert [cell.text for cell in second][-2:] == ["2.5", "no"] and second[-1].emphasis == "bold"
    assert "2 checks, of which 1 fail" in table.notes[0] and len(table.rows) == 2


def test_headings() -> None:
    assert _heading("fedswe_fig07a") == "Figure 7a" and _heading("partial_table2") == "Table 2"
    assert _heading("fedswe_theory") == "Theory" and _heading("partial_theorem1") == "Theorem 1"
