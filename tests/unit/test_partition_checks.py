"""What the plan refuses about a partition: each message names the key, its value and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from fedrepro.core.spec import Partition
from fedrepro.errors import FedreproError
from fedrepro.plan.config import Config
from fedrepro.plan.grid import Experiment, Grid, PaperCard, expand
from fedrepro.provenance.identity import canonical_json, cell_id
from tests.helpers import SPEC


def planned(dynamics: str = "sine", **partition: Any) -> Any:
    """The specification of a one-cell grid on mnist5k, which has ten classes."""
    values = {
        "dataset": "mnist5k",
        "partition": {"clients": 20, "alpha": 0.1} | partition,
        "dynamics": dynamics,
        "algorithm": "fedavg_active",
        "model": "mlp",
        "rounds": 4,
        "local_steps": 2,
        "batch_size": 5,
        "local_lr": 0.1,
        "lr_schedule": "constant",
        "clip": "none",
    }
    block = Experiment(kind="train", where="here", set=values)
    grid = Grid(paper=PaperCard(title="t", authors="a"), experiments={"one": block})
    (entry,) = expand(Path("grid.yaml"), grid, "one", Config(seeds=[3]), "tiny")
    return entry.spec


@pytest.mark.parametrize(
    "partition",
    [
        {"groups": 1},
        {"groups": 2},
        {"groups": 5},
        {"groups": 10},
        {"assignment": "iid"},
        {"assignment": "sized", "sizes": (5,) * 19 + (3905,)},
        {"streams": "legacy"},
    ],
)
def test_a_partition_in_range_is_planned(partition: dict[str, Any]) -> None:
    assert planned(**partition).partition == Partition(20, 0.1, **partition)


def test_legacy_allows_dynamics_of_independent_clients() -> None:
    assert planned("group_windows", streams="legacy").partition.streams == "legacy"
    assert planned("uniform_sampling").dynamics.name == "uniform_sampling"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"groups": 3}, r"'partition\.groups': 3 groups do not divide .* 20 clients .* 10 classes of mnist5k"),
    ({"groups": 4}, r"'partition\.groups': 4 groups .*; use one of 1, 2, 5, 10$"),
    ({"groups": 20}, r"'partition\.groups': 20 groups .* 10 classes of mnist5k; use one of 1, 2, 5, 10$"),
    ({"clients": 15, "groups": 2}, r"'partition\.groups': 2 groups .* 15 clients .*; use one of 1, 5$"),
    ({"groups": 0}, r"'partition\.groups': 0 is not allowed"),
    ({"groups": 2, "assignment": "iid"}, r"'partition\.groups': 2 groups are not defined for .*'iid'"),
    (
        {"assignment": "even"},
        r"'partition\.assignment': 'even' is not allowed.*'dirichlet', 'iid' or 'sized'",
    ),
    ({"streams": "numpy"}, r"'partition\.streams': 'numpy' is not allowed.*'keyed' or 'legacy'"),
    ({"streams": "legacy", "groups": 2}, r"'partition\.streams': 'legacy' is not defined .* with 2 groups"),
    ({"streams": "legacy", "assignment": "iid"}, r"'partition\.streams': 'legacy' is not defined .*'iid'"),
    ({"sizes": [4000]}, r"'partition\.sizes' is not used by assignment 'dirichlet'; leave it out"),
    (
        {"assignment": "sized"},
        r"'partition\.sizes': 0 sizes with sum 0; give one .*20 clients, with sum 4000",
    ),
    (
        {"assignment": "sized", "clients": 2, "sizes": [1000, 3001]},
        r"'partition\.sizes': 2 sizes with sum 4001; .* sum 4000, the training images of mnist5k$",
    ),
    ({"assignment": "sized", "clients": 2, "sizes": [4000, 0]}, r"'partition\.sizes\.1': 0 is not allowed"),
    (
        {"assignment": "sized", "sizes": [200] * 20, "groups": 2},
        r"'partition\.groups': 2 groups are not defined for assignment 'sized'",
    ),
    (
        {"assignment": "sized", "sizes": [200] * 20, "streams": "legacy"},
        r"'partition\.streams': 'legacy' is not defined .*'sized'",
    ),
    (
        {"dynamics": "uniform_sampling", "streams": "legacy"},
        r"'partition\.streams': 'legacy' is not defined for dynamics uniform_sampling.*use streams 'keyed'",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_partition_out_of_range_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FedreproError, match=r"^grid\.yaml: experiments\.one: key " + message):
        planned(**changes)


def test_neutral_parts_do_not_enter_the_id() -> None:
    explicit = planned(groups=1, assignment="dirichlet", streams="keyed")
    assert canonical_json(explicit) == canonical_json(planned())
    assert '"partition":{"alpha":0.1,"clients":20}' in canonical_json(explicit)


def test_every_part_of_a_partition_changes_the_id() -> None:
    parts: list[dict[str, Any]] = [{}, {"groups": 2}, {"assignment": "iid"}, {"streams": "legacy"}]
    parts += [{"assignment": "sized", "sizes": [180 + n] + [200] * 18 + [220 - n]} for n in range(2)]
    assert len({cell_id(planned(**part)) for part in parts}) == 6
    assert SPEC.partition == Partition(4, 0.5, groups=1, assignment="dirichlet", streams="keyed")
