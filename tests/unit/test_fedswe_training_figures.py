"""FedSWE's Figures 3 and 6 to 12 from small frames, by hand.

Windows: period 4, so that the first group's window ends after rounds 2, 6, 10 and the period after 4, 8, 12;
T = 12 and a final window of 4 rounds, so that rounds 10 and 12 count.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedrepro.core import registry
from fedrepro.figures import (
    fedswe_fig03,
    fedswe_fig06,
    fedswe_fig07,
    fedswe_fig08,
    fedswe_fig09,
    fedswe_fig10,
)
from fedrepro.presentation import style
from fedrepro.presentation.training import first_reach

LABELS = ["status", "paper_dataset", "dataset", "dynamics.inside", "algorithm", "evaluated", "split", "cell"]
FLAT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)  # accuracies after rounds 0, 2, ..., 12


def run(
    accuracies: Sequence[float] = FLAT,
    *,
    seed: int = 3,
    k: float | None = 1.0,
    status: str = "ok",
    **facts: Any,
) -> pd.DataFrame:
    """One run; the mean of the clients' models is better by 0.05, the consensus error the round squared."""
    shared = {
        "cell": f"{facts}{k}{seed}", "seed": seed, "status": status, "paper_dataset": "svhn", "split": "test",
        "dataset": "mnist5k", "dynamics.inside": "static", "dynamics.period": 4, "rounds": 12,
        "evaluation.final_rounds": 4, "algorithm": "fedavg_active" if k is None else "fedswe",
        "algorithm.k_over_m": k,
    } | facts  # fmt: skip
    rows = []
    for number, accuracy in enumerate(accuracies):
        for evaluated, more in (("server", 0.0), ("client_mean", 0.05))[: 1 if k is None else 2]:
            values = {"round": 2 * number, "evaluated": evaluated, "accuracy": accuracy + more}
            rows.append(shared | values | {"consensus_error": None if k is None else (2.0 * number) ** 2})
    return pd.DataFrame(rows)


def frame(*runs: pd.DataFrame) -> pd.DataFrame:
    """As collected: labels are categories."""
    table = pd.concat(runs, ignore_index=True)
    return table.astype({label: "category" for label in LABELS if label in table})


def availability() -> pd.DataFrame:
    rows = [
        {"cell": inside, "client": client, "base": 0.5, "round": t,
         "probability": 0.5 * (t // 2 % 2 == client), "dynamics.inside": inside,
         "dynamics.period": 4, "dynamics.groups": 2}
        for inside in ("static", "staircase") for client in (0, 1) for t in range(4)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def windows(*svhn: pd.DataFrame, rivals: Sequence[pd.DataFrame] = ()) -> dict[str, pd.DataFrame]:
    """The experiments of all figures; CIFAR-10's runs are SVHN's."""
    own = frame(*svhn)
    other = frame(*rivals) if rivals else frame(run(k=None))
    return {
        "fedswe_windows_svhn": own,
        "fedswe_windows_cifar10": own.assign(paper_dataset="cifar10"),
        "fedswe_rivals_svhn": other,
        "fedswe_rivals_cifar10": other.assign(paper_dataset="cifar10"),
        "fedswe_windows_dynamics": availability(),
    }


def texts(figure: Figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return "\n".join([text.get_text() for axes in figure.axes for text in axes.texts] + legends)


def test_curves_are_mean_and_deviation_over_seeds_at_both_window_ends() -> None:
    """Accuracies 0.7 and 0.5 after round 12: mean 0.6, deviation sqrt(2 * 0.1^2) = 0.1414."""
    low = (0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5)
    found = fedswe_fig07.data(windows(run(), run(low, seed=4)))
    server = found[(found["algorithm"] == "fedswe") & (found["evaluated"] == "server")]
    ends = {end: list(rows["round"]) for end, rows in server.groupby("end")}
    assert ends == {"first": [2, 6, 10], "second": [0, 4, 8, 12]}
    last = server[server["round"] == 12].iloc[0]
    assert last["mean"] == pytest.approx(0.6) and last["std"] == pytest.approx(0.1 * math.sqrt(2))
    assert (last["n"], last["runs"], last["diverged"]) == (2, 2, 0)
    mean = found[(found["evaluated"] == "client_mean") & (found["round"] == 12)]
    assert mean["mean"].item() == pytest.approx(0.65)
    rival = found[found["algorithm"] == "fedavg_active"]
    assert set(rival["evaluated"]) == {"server"} and rival["std"].isna().all(), "one seed has no deviation"
    drawn = found[found["drawn"] == "availability"]
    assert set(drawn["group"]) == {1, 2} and drawn["probability"].max() == 0.5


def test_figure_7_shows_k_0_and_k_m_only() -> None:
    found = fedswe_fig07.data(windows(run(k=0.0), run(k=1.0), run(k=10.0)))
    assert set(found["k_over_m"].dropna()) == {0.0, 1.0}


def test_a_curve_ends_where_its_first_run_diverged() -> None:
    lost = run((0.1, 0.2, 0.3), seed=4, status="diverged")
    found = fedswe_fig06.data(windows(run(), lost))
    curve = found[(found["drawn"] == "runs") & (found["paper_dataset"] == "svhn")]
    assert list(curve["round"]) == [4] and list(curve["mean"]) == [16.0]
    assert (curve["diverged"] == 1).all() and (curve["runs"] == 2).all()
    assert "1/2 diverged" in texts(fedswe_fig06.draw(found))


def test_consensus_error_is_taken_once_a_period() -> None:
    """The paper samples every period; round 0, where it is 0, cannot stand on a logarithmic axis."""
    found = fedswe_fig06.data(windows(run()))
    runs = found[found["drawn"] == "runs"]
    assert {name: list(rows["round"]) for name, rows in runs.groupby("paper_dataset")} == {
        "svhn": [4, 8, 12], "cifar10": [4, 8, 12],
    }  # fmt: skip
    assert list(runs["mean"][:3]) == [16.0, 64.0, 144.0]


def test_final_accuracy_averages_the_final_rounds_of_both_ends() -> None:
    """Rounds 10 and 12: (0.6 + 0.7) / 2; the other seed (0.4 + 0.5) / 2; one end each alone."""
    low = (0.1, 0.2, 0.3, 0.4, 0.9, 0.4, 0.5)
    found = fedswe_fig08.data(windows(run(), run(low, seed=4)))
    server = found[found["evaluated"] == "server"].set_index("end")
    assert server.loc["both", "mean"] == pytest.approx(0.55)
    assert server.loc["both", "std"] == pytest.approx(0.1 * math.sqrt(2))
    assert server.loc["first", "mean"] == pytest.approx(0.5)
    assert server.loc["second", "mean"] == pytest.approx(0.6)


def test_a_diverged_run_leaves_no_mean() -> None:
    found = fedswe_fig08.data(windows(run(), run((0.1, 0.2), seed=4, status="diverged"), run(k=10.0)))
    lost = found[found["k_over_m"] == 1]
    assert lost["mean"].isna().all() and (lost["diverged"] == 1).all() and (lost["runs"] == 2).all()
    assert found.loc[found["k_over_m"] == 10, "mean"].notna().all()
    assert "1/2\ndiverged" in texts(fedswe_fig08.draw(found))


def test_first_round_with_40_percent() -> None:
    """Also a value that is lost again counts; seed 4 never reaches it."""
    early, never = (0.1, 0.4, 0.2, 0.2, 0.5, 0.5, 0.5), (0.1,) * 7
    found = fedswe_fig09.data(windows(run(early), run(never, seed=4), run(FLAT, seed=6)))
    server = found[found["evaluated"] == "server"].set_index("seed")["reached"]
    assert server[3] == 2 and math.isnan(server[4]) and server[6] == 6
    drawn = texts(fedswe_fig09.draw(found))
    assert "never" in drawn and "1/3" in drawn


def test_first_reach_ignores_what_comes_later() -> None:
    table = pd.DataFrame(
        {"seed": 3, "status": "ok", "cell": "a", "round": [0, 5, 10], "accuracy": [0.0, 0.5, 0.9]}
    )
    assert first_reach(table, ["cell"], 0.5)["reached"].item() == 5
    assert math.isnan(first_reach(table, ["cell"], 0.95)["reached"].item())


def test_panels_without_runs_say_so() -> None:
    frames = windows(run())
    for figure in (fedswe_fig06, fedswe_fig07, fedswe_fig08, fedswe_fig09, fedswe_fig10):
        assert "not run" in texts(figure.draw(figure.data(frames)))


def test_what_a_panel_lacks_is_named() -> None:
    """k = 10 m is not run with the staircase; its line style stays that of the other panel."""
    stairs: dict[str, Any] = {"dynamics.inside": "staircase"}
    frames = windows(run(k=0.0), run(), run(k=10.0), run(k=0.0, **stairs), run(k=10.0, **stairs))
    drawn = fedswe_fig06.draw(fedswe_fig06.data(frames))
    assert texts(drawn).count("not run: $k = m$") == 2
    styles = [[line.get_linestyle() for line in axes.lines] for axes in drawn.axes[:2]]
    assert styles == [["-", "--", "-."], ["-", "-."]]
    assert "not run: FedSWE" in texts(fedswe_fig07.draw(fedswe_fig07.data(windows(run()))))
    assert texts(fedswe_fig08.draw(fedswe_fig08.data(frames))).count("not run") == 1
    assert texts(fedswe_fig09.draw(fedswe_fig09.data(frames))).count("not run") == 1


def test_fewer_seeds_are_named() -> None:
    drawn = texts(fedswe_fig07.draw(fedswe_fig07.data(windows(run(), run(seed=4)))))
    assert "FedAvg over active (1 of 2 seeds)" in drawn and "FedSWE, server's model\n" in drawn


def test_figure_3_by_hand() -> None:
    """Means over the final window; a combination that was not run, and one that diverged."""
    grid = [(0.1, 0.1, FLAT, "ok"), (0.1, 0.5, FLAT[:2], "diverged"), (0.5, 0.5, FLAT, "ok")]
    runs = []
    for p, gamma, values, status in grid:
        for split in ("train", "test"):
            facts: dict[str, Any] = {"dynamics.p": p, "dynamics.gamma": gamma, "split": split}
            runs.append(run(values, k=None, status=status, **facts))
    found = fedswe_fig03.data({"fedswe_fig03": frame(*runs)})
    assert len(found) == 6
    first = found[(found["dynamics.p"] == 0.1) & (found["dynamics.gamma"] == 0.1)]
    assert list(first["mean"]) == pytest.approx([0.65, 0.65])
    drawn = texts(fedswe_fig03.draw(found))
    assert drawn.count("65.0") == 4 and drawn.count("not run") == 2 and drawn.count("1/1\ndiverged") == 2


def test_every_algorithm_has_its_own_colour() -> None:
    assert set(style.COLOURS) == set(registry.names("algorithm"))
    assert len(set(style.COLOURS.values()) | set(style.GROUPS)) == len(style.COLOURS) + len(style.GROUPS)
    assert style.colour("a_new_one") not in style.COLOURS.values()
