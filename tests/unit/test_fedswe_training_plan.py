"""What the grid plans for FedSWE's Figures 3 and 6 to 12: cells of every tier, what is shared, evaluation."""

from pathlib import Path
from typing import Any

import pytest

from fedrepro.core.schedule import evaluation_rounds
from fedrepro.plan.config import TIERS, load
from fedrepro.plan.grid import expand, load_grid
from fedrepro.plan.plan import Plan, make_plan

ROOT = Path(__file__).parents[2]
GRID = ROOT / "config/papers/fedswe/grid.yaml"
BLOCKS = ("fig03", "windows_svhn", "windows_cifar10", "rivals_svhn", "rivals_cifar10")
TARGETS = {f"fedswe_fig{number:02}" for number in (3, 6, 7, 8, 9, 10, 11, 12)}


@pytest.fixture(scope="module", params=TIERS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return make_plan(ROOT, {"tier": request.param})


def specs(name: str, tier: str | None) -> list[Any]:
    config = load(ROOT, {"tier": tier or "paper"})
    return [entry.spec for entry in expand(GRID, load_grid(GRID), name, config, tier)]  # type: ignore[arg-type]


def test_every_target_is_in_every_tier(plan: Plan) -> None:
    assert set(plan.targets) >= TARGETS


def test_cells(plan: Plan) -> None:
    """Demo: 6 + (2 dynamics x 4 k x 3 seeds) + (2 dynamics x 6 baselines x 1 seed) = 42. Decide: 11 seeds."""
    cells = {name: set(plan.experiments[f"fedswe_{name}"].cells) for name in BLOCKS}
    counts = [len(cells[name]) for name in BLOCKS]
    assert counts == {
        "tiny": [1, 2, 2, 1, 1], "demo": [6, 24, 24, 12, 12], "paper": [75, 42, 42, 36, 36],
        "decide": [275, 154, 154, 132, 132],
    }[plan.config.tier]  # fmt: skip
    together = len(set().union(*cells.values()))
    assert together == {"tiny": 4, "demo": 42}.get(plan.config.tier, sum(counts))


def test_digits_stand_for_both_data_sets_with_the_same_runs(plan: Plan) -> None:
    for block in ("windows", "rivals"):
        svhn, cifar10 = (plan.experiments[f"fedswe_{block}_{name}"] for name in ("svhn", "cifar10"))
        assert (svhn.cells == cifar10.cells) == (plan.config.tier in ("tiny", "demo"))
        assert {member.paper_dataset for member in cifar10.members} == {"cifar10"}


@pytest.mark.parametrize("name", BLOCKS[1:])
@pytest.mark.parametrize("tier", [None, "tiny", "demo"])
def test_both_window_ends_are_evaluated(name: str, tier: str | None) -> None:
    """After every half period, also within the final window, whose length is whole periods."""
    for spec in specs(name, tier):
        period = spec.dynamics.params.get("period", 100)
        ends = range(0, spec.rounds + 1, period // 2)
        assert set(evaluation_rounds(spec.rounds, spec.evaluation, "test")) >= set(ends)
        assert spec.evaluation.final_rounds % period == 0 and spec.rounds % period == 0
        assert spec.evaluation.final_rounds % spec.evaluation.final_every == 0
        assert spec.partition.groups == 2 and spec.lr_schedule == "constant"


def test_paper_values() -> None:
    """Table 5: T; Table 6: rates; Section 7.1: windows of 50 rounds, 500 final rounds; Figure 3: T."""
    for dataset, rounds in (("svhn", 10000), ("cifar10", 20000)):
        for spec in [*specs(f"windows_{dataset}", None), *specs(f"rivals_{dataset}", None)]:
            assert (spec.dataset, spec.rounds, spec.partition.clients) == (dataset, rounds, 100)
            assert spec.evaluation.final_rounds == 500 and spec.local_steps == 10
    assert {spec.local_lr for spec in specs("windows_svhn", None)} == {0.1}
    fig03 = specs("fig03", None)
    assert len({str(spec.dynamics) for spec in fig03}) == 25
    assert {(s.dataset, s.rounds, s.local_lr, s.lr_schedule, s.algorithm.name) for s in fig03} == {
        ("svhn", 1000, 0.05, "inverse_sqrt", "fedavg_active")
    }


def test_a_tier_may_run_the_first_seed_only() -> None:
    assert {spec.seed for spec in specs("rivals_svhn", "demo")} == {3}
    assert {spec.seed for spec in specs("windows_svhn", "demo")} == {3, 4, 6}
    assert {spec.seed for spec in specs("rivals_svhn", "paper")} == {3, 4, 6}


def test_digits_leave_the_paper_tier_together() -> None:
    """The blocks of Section 7.1 name CIFAR-10's stand-in only as long as the defaults name SVHN's."""
    grid = load_grid(GRID)
    stand_in = "paper" in grid.defaults["train"].scale
    assert {"paper" in grid.experiments[name].scale for name in BLOCKS[1:]} == {stand_in}
