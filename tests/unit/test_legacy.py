"""The stream of the authors' released code, against literal loops and published class counts."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from fedrepro.cells import analysis as analysis_cell
from fedrepro.core import legacy
from fedrepro.core.job import Context
from fedrepro.core.partition import assign, base_probabilities, class_counts
from fedrepro.core.spec import AnalysisSpec, Choice, Partition, PartitionSpec
from fedrepro.core.tables import decode
from tests.helpers import shared_inputs, spec_of

HUNDRED = Partition(100, 0.1, streams="legacy")
SVHN = [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659]  # train split, labels 0 to 9
IMAGES = {"cifar10": [5000] * 10, "svhn": SVHN, "cinic10": [9000] * 10}
SIZES = [  # smallest, median and largest client of the released code's partition
    ("cifar10", 3, 365, 490.5, 706),
    ("cifar10", 4, 339, 487.5, 727),
    ("cifar10", 6, 432, 492, 616),
    ("svhn", 3, 446, 591.5, 1828),
    ("svhn", 4, 319, 717, 1519),
    ("svhn", 6, 436, 684.5, 1274),
    ("cinic10", 3, 658, 882.5, 1271),
    ("cinic10", 4, 611, 877, 1306),
    ("cinic10", 6, 777, 886, 1109),
]


def counts_of(dataset: str, seed: int) -> NDArray[np.int64]:
    """Images of each class at each of the 100 clients; the order of the images does not matter."""
    labels = np.repeat(np.arange(10), IMAGES[dataset])
    client = assign(labels, 10, PartitionSpec(dataset, seed, HUNDRED))
    return class_counts(labels, client, 100, 10)


@pytest.mark.parametrize(("dataset", "seed", "smallest", "median", "largest"), SIZES)
def test_sizes_of_the_clients_are_golden(
    dataset: str, seed: int, smallest: int, median: float, largest: int
) -> None:
    sizes = counts_of(dataset, seed).sum(axis=1)
    assert (sizes.min(), np.median(sizes), sizes.max()) == (smallest, median, largest)


@pytest.mark.parametrize("dataset", IMAGES)
@pytest.mark.parametrize("seed", [3, 4, 6])
def test_the_cut_equals_a_literal_loop(dataset: str, seed: int) -> None:
    """Client n ends at round(N_c * sum(nu[:n+1, c]) / sum(nu[:, c])) in every class c."""
    nu = np.random.RandomState(seed).dirichlet(0.1 * np.ones(10), 100)
    expected = np.zeros((100, 10), dtype=int)
    for c, images in enumerate(IMAGES[dataset]):
        start = 0
        for n in range(100):
            end = round(images * sum(nu[: n + 1, c]) / sum(nu[:, c]))
            expected[n, c], start = end - start, end
    assert counts_of(dataset, seed).tolist() == expected.tolist()


def literal(seed: int, clients: int, classes: int) -> tuple[NDArray[np.float64], np.random.RandomState]:
    """phi, and the stream behind it, with one call for each part."""
    rng = np.random.RandomState(seed)
    rng.dirichlet(0.5 * np.ones(classes), clients)
    first = [rng.uniform(0, 1) for _ in range(classes // 2)]
    second = [rng.uniform(0, 0.5) for _ in range(classes - classes // 2)]
    return np.array(first + second), rng


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_availability_equals_a_literal_loop(classes: int) -> None:
    """One scalar draw per round and client. Probability 0 draws nothing, 1 does, so both stand among them."""
    clients, rounds = 6, 300
    probability = np.random.default_rng(1).random((rounds, clients))
    probability[:, 2], probability[:, 4] = 0.0, 1.0
    probability[::7, 3] = 0.0
    phi, rng = literal(4, clients, classes)
    expected = [[rng.binomial(1, probability[t, i]) == 1 for i in range(clients)] for t in range(rounds)]
    chosen = Partition(clients, 0.5, streams="legacy")
    found = legacy.draw(probability, 4, chosen, classes)
    assert found.dtype == np.bool_
    assert found.tolist() == expected
    assert legacy.replay(4, chosen, classes).phi.tolist() == phi.tolist()
    assert legacy.draw(probability[:50], 4, chosen, classes).tolist() == expected[:50]


def test_a_client_of_one_class_has_the_weight_of_that_class() -> None:
    """Counts diag(1), so p = phi; a client without images has 0."""
    spec = PartitionSpec("mnist5k", 4, Partition(11, 0.5, streams="legacy"))
    counts = np.vstack([np.eye(10, dtype=int), np.zeros((1, 10), dtype=int)])
    phi, _ = literal(4, 11, 10)
    np.testing.assert_allclose(base_probabilities(counts, spec), [*phi, 0.0], rtol=1e-15)


@pytest.mark.parametrize("dataset", IMAGES)
def test_expected_cohorts_of_the_papers_seeds(dataset: str) -> None:
    """Recomputed elsewhere: the p_i sum to 40 to 47, and the smallest is .014 in seed 4, at most .13 else."""
    specs = [PartitionSpec(dataset, seed, HUNDRED) for seed in (3, 4, 6)]
    base = [base_probabilities(counts_of(dataset, spec.seed), spec) for spec in specs]
    assert [40 <= round(p.sum()) <= 47 for p in base] == [True] * 3
    assert [round(p.min(), 3) == 0.014 for p in base] == [False, True, False]
    assert max(p.min() for p in base) < 0.135


@pytest.mark.parametrize("field", ["seed", "clients", "alpha"])
def test_the_stream_depends_on_seed_clients_and_alpha(field: str) -> None:
    changed = {"seed": 3, "clients": 5, "alpha": 0.5}
    draws = []
    for value in (changed[field], changed[field] * 2):
        now = changed | {field: value}
        chosen = Partition(int(now["clients"]), now["alpha"], streams="legacy")
        draws.append(legacy.draw(np.full((40, 4), 0.5), int(now["seed"]), chosen, 10).tolist())
    assert draws[0] != draws[1]


def test_trace_and_analysis_of_a_legacy_partition(prepared: dict[str, Path], tmp_path: Path) -> None:
    """The jobs themselves: phi and the draws come from one stream of (seed, alpha, m, C)."""
    chosen = Partition(8, 0.5, streams="legacy")
    spec = spec_of(partition=chosen, rounds=30)
    inputs = shared_inputs(spec, prepared, tmp_path)
    table = pq.read_table(inputs["partition"]).to_pandas()
    counts = class_counts(table["label"].to_numpy(), table["client"].to_numpy(), 8, 10)
    phi, rng = literal(3, 8, 10)
    base = counts @ phi / counts.sum(axis=1)
    expected = np.array([[rng.binomial(1, p) for p in base] for _ in range(30)])
    trace = pq.read_table(inputs["trace"]).to_pandas()
    assert trace["active"].to_numpy().reshape(8, 30).T.astype(int).tolist() == expected.tolist()
    cell = AnalysisSpec(Choice("base_probabilities"), 3, dataset="mnist5k", partition=chosen)
    content = analysis_cell.run(cell, {"partition": inputs["partition"]}, Context()).files["metrics"].content
    np.testing.assert_allclose(decode(content)["probability"].to_numpy(), base, rtol=1e-14)


def test_the_global_generator_is_left_alone() -> None:
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    legacy.replay(3, HUNDRED, 10)
    np.testing.assert_equal(np.random.get_state(), before)  # noqa: NPY002
