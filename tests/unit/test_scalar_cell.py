"""Scalar cells and the analyses of the partial-participation paper."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedrepro.analyses import bgd_failure
from fedrepro.cells import analysis, scalar
from fedrepro.core.job import Context
from fedrepro.core.schedule import recorded_rounds
from fedrepro.core.spec import AnalysisSpec, Choice, ScalarSpec
from fedrepro.core.tables import decode
from fedrepro.provenance.manifest import expected_rows

SPEC = ScalarSpec(
    problem=Choice("huber40", {"d_max": 20.0}),
    seed=3,
    rounds=30,
    sampled=4,
    local_steps=2,
    step_size=0.01,
    trials=150,
    records=6,
    paths=2,
)


def rows(spec: ScalarSpec, threads: int = 1) -> pd.DataFrame:
    result = scalar.run(spec, {}, Context(threads=threads))
    assert result.status == "ok"
    return decode(result.files["metrics"].content).to_pandas()


def test_recorded_rounds_hold_both_ends() -> None:
    """Six records: 0, 10, 20, 30 evenly and 1, 3, 10 (30^(0), 30^(1/3), 30^(2/3) rounded) geometrically."""
    assert list(recorded_rounds(SPEC)) == [0, 1, 3, 10, 20, 30]
    assert list(recorded_rounds(replace(SPEC, records=1))) == [0, 30]


@pytest.mark.parametrize("trials", [2, 100, 101, 150])
@pytest.mark.parametrize("paths", [0, 2])
def test_rows_are_as_many_as_verification_expects(trials: int, paths: int) -> None:
    spec = replace(SPEC, trials=trials, paths=paths)
    assert len(rows(spec)) == expected_rows(spec)


def test_averages_are_those_of_the_single_trials() -> None:
    """At the last round every trial is kept, so mean and standard error can be recomputed."""
    frame = rows(SPEC)
    single = frame[frame["trial"].notna() & (frame["round"] == 30)]
    assert list(single["trial"]) == list(range(150)) and (single["trials"] == 1).all()
    for count in (100, 150):
        mean = frame[frame["trial"].isna() & (frame["trials"] == count)]
        assert list(mean["round"]) == [0, 1, 3, 10, 20, 30]
        for name in ("gap", "squared_gradient"):
            values = single[name].iloc[:count]
            assert mean[name].iloc[-1] == pytest.approx(values.mean(), rel=1e-12)
            assert mean[f"{name}_se"].iloc[-1] == pytest.approx(values.sem(), rel=1e-12)
    start = frame.loc[frame["round"] == 0, "gap"]
    assert start.to_numpy() == pytest.approx(start.iloc[0]), "one common start"


def test_paths_are_the_first_trials() -> None:
    frame = rows(SPEC)
    path = frame[(frame["trial"] < 2) & (frame["round"] < 30)]
    assert sorted(path["trial"].unique()) == [0, 1] and len(path) == 2 * 5


def test_threads_do_not_change_the_bytes() -> None:
    contents = {scalar.run(SPEC, {}, Context(threads=n)).files["metrics"].content for n in (1, 2, 3)}
    assert len(contents) == 1


def test_step_sizes() -> None:
    """alpha_t = 0.01 / 2 where it is given per round; 0.01 (1 + t/4)^-1 is 0.005 at t = 4."""
    np.testing.assert_array_equal(scalar.step_sizes(SPEC), 0.01)
    np.testing.assert_array_equal(scalar.step_sizes(replace(SPEC, step_size_of="round")), 0.005)
    decayed = scalar.step_sizes(replace(SPEC, decay_power=1.0, decay_rounds=4.0))
    assert decayed[0] == 0.01 and decayed[4] == pytest.approx(0.005)


def test_a_step_size_that_explodes_is_diverged() -> None:
    result = scalar.run(replace(SPEC, step_size=1e300, rounds=10), {}, Context())
    assert result.status == "diverged"


def test_theorem_1() -> None:
    """Closed form against the derivatives; the bound holds; f' stays below 1; the rate is k^2."""
    spec = AnalysisSpec(Choice("bgd_failure", {"largest": 1000}), seed=3)
    found = decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pandas()
    np.testing.assert_allclose(found["dissimilarity"], found["closed_form"], rtol=1e-9)
    assert (found["dissimilarity"] >= found["lower_bound"]).all() and found["gradient"].between(0.9, 1).all()
    assert found["dissimilarity"].iloc[-1] / found["dissimilarity"].iloc[9] == pytest.approx(1e4, rel=1e-6)


def test_derivatives_of_theorem_1s_pair() -> None:
    """Central differences of r +- r sin(sqrt(r)) / 2."""

    def clients(x: np.ndarray) -> np.ndarray:
        r = np.sqrt(1 + x**2)
        return np.array([r + r * np.sin(np.sqrt(r)) / 2, r - r * np.sin(np.sqrt(r)) / 2])

    x = np.array([-7.0, -0.5, 0.0, 0.3, 2.0, 90.0])
    numeric = (clients(x + 1e-5) - clients(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.array(bgd_failure.client_gradients(x)), numeric, atol=1e-8)


def test_heterogeneity_of_the_published_instance() -> None:
    spec = AnalysisSpec(Choice("heterogeneity"), seed=3, problem=Choice("huber40", {"d_max": 200.0}))
    (row,) = decode(analysis.run(spec, {}, Context()).files["metrics"].content).to_pylist()
    assert f"{row['sigma_f_star']:.3f}" == "52.675"
    assert row["bgd_sum"] == pytest.approx(0.9975, abs=1e-6)
