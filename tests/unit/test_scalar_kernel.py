"""The compiled scalar simulation: exactness without noise, and the law of its random numbers.

Statistical bounds are four standard errors, on fixed keys.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from fedrepro.core import scalar
from fedrepro.core.scalar import Simulation, key, simulate
from fedrepro.problems import huber40

Floats = NDArray[np.float64]


@njit
def quiet(x, offset):  # type: ignore[no-untyped-def]
    """Huber, without noise."""
    return min(max(x - offset, -1.0), 1.0), 0.0


@njit
def coin(x, offset):  # type: ignore[no-untyped-def]
    """Noise only: every local step adds a sign."""
    return 0.0, 1.0


@njit
def collect(x, offset):  # type: ignore[no-untyped-def]
    """Every local step adds the client's offset."""
    return -offset, 0.0


@pytest.fixture(autouse=True, scope="module")
def _in_memory() -> Iterator[None]:
    """Kernels on disk are told apart by name only; those of the steps above shall not meet older ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scalar, "ON_DISK", False)
        yield


def work(**changes: Any) -> Simulation:
    """Seven of twelve Huber clients, three local steps, nine rounds."""
    base = Simulation(
        start=2.5,
        offsets=np.linspace(0, 11, 12) ** 1.5,
        sampled=7,
        local_steps=3,
        step_sizes=np.linspace(0.3, 0.1, 9),
        records=np.arange(10),
        trials=23,
        key=3,
    )
    return replace(base, **changes)


def noisy(**changes: Any) -> Floats:
    threads = changes.pop("threads", 1)
    return simulate(huber40.step, "huber40", work(**changes), threads)


def signs(**changes: Any) -> Floats:
    """x after a noise-only run from 0, in which every step adds or subtracts 1."""
    changes = {"start": 0.0, "offsets": np.zeros(4), "sampled": 4, **changes}
    rounds = changes.pop("rounds", 1)
    chosen = work(**{"step_sizes": np.ones(rounds), "records": np.arange(rounds + 1), **changes})
    return np.diff(simulate(coin, "coin", chosen), axis=1)


def clip(u: float) -> float:
    return min(max(u, -1.0), 1.0)


def test_one_client_without_noise_is_gradient_descent_to_the_bit() -> None:
    chosen = work(offsets=np.array([0.7]), sampled=1, trials=2)
    x, expected = chosen.start, [chosen.start]
    for alpha in chosen.step_sizes.tolist():
        for _ in range(chosen.local_steps):
            x -= alpha * clip(x - 0.7)
        expected.append(x)
    assert simulate(quiet, "quiet", chosen).tolist() == [expected, expected]
    assert abs(expected[-1] - 0.7) < 0.02  # has moved


def test_with_everybody_sampled_the_server_takes_the_mean_of_all_local_models() -> None:
    chosen = work(sampled=12)
    x, expected = chosen.start, [chosen.start]
    for alpha in chosen.step_sizes.tolist():
        models = []
        for offset in chosen.offsets.tolist():
            local = x
            for _ in range(chosen.local_steps):
                local -= alpha * clip(local - offset)
            models.append(local)
        x = sum(models) / 12
        expected.append(x)
    found = simulate(quiet, "quiet", chosen)
    np.testing.assert_allclose(found, np.tile(expected, (23, 1)), rtol=0, atol=1e-12)
    assert abs(expected[-1] - expected[0]) > 1


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
@pytest.mark.parametrize("lanes", [1, 20, 64, 10_000])
def test_bits_depend_neither_on_threads_nor_on_blocks(
    threads: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven lanes a trial: blocks of 1, 2, 9 and all 23 trials, the last one often incomplete."""
    expected = noisy()
    monkeypatch.setattr(scalar, "LANES", lanes)
    assert np.array_equal(noisy(threads=threads), expected)


@pytest.mark.parametrize("trials", [1, 2, 22])
def test_the_first_trials_do_not_depend_on_later_ones(trials: int) -> None:
    assert np.array_equal(noisy(trials=trials), noisy()[:trials])


def test_the_first_rounds_do_not_depend_on_later_ones() -> None:
    short = noisy(step_sizes=work().step_sizes[:4], records=np.arange(5))
    assert np.array_equal(short, noisy()[:, :5])


def test_trials_and_keys_draw_different_numbers() -> None:
    last = np.concatenate([noisy(key=k)[:, -1] for k in (3, 4, 2**62 + 3)])
    assert len(np.unique(last)) == 69


def test_the_key_depends_on_seed_and_problem() -> None:
    keys = {key(seed, problem) for seed in (0, 1) for problem in ("huber40", "softplus16")}
    assert len(keys) == 4 and all(0 <= k < 2**63 for k in keys)
    assert key(1, "huber40") == key(1, "huber40")


@pytest.mark.parametrize("records", [[0], [9], [0, 9], [1, 4, 5], []])
def test_recorded_rounds_are_a_choice_among_all(records: list[int]) -> None:
    chosen = np.array(records, np.int64)
    assert np.array_equal(noisy(records=chosen), noisy()[:, records])


def test_round_zero_is_the_start() -> None:
    assert (noisy(start=-4.25)[:, 0] == -4.25).all()


def test_every_round_has_its_own_step_size() -> None:
    """One client adds its offset 1 three times a round: x_t = 3 (alpha_0 + ... + alpha_{t-1}), exactly."""
    sizes = np.array([0.5, 0.25, 2.0, 0.0, 8.0])
    chosen = work(start=0.0, offsets=np.ones(1), sampled=1, step_sizes=sizes, records=np.arange(6), trials=2)
    expected = [0, 1.5, 2.25, 8.25, 8.25, 32.25]
    assert simulate(collect, "collect", chosen).tolist() == [expected] * 2


def test_the_generators_are_the_published_ones() -> None:
    """SplitMix64's first output for the seeds 0 and 1234567, xorshift64's first from Marsaglia's seed."""
    assert int(scalar._mix(np.uint64(0))) == 0xE220A8397B1DCDAF
    assert int(scalar._mix(np.uint64(1234567))) == 6457827717110365317
    assert int(scalar._next(np.uint64(88172645463325252))) == 8748534153485358512


def test_a_step_adds_plus_or_minus_one() -> None:
    added = signs(offsets=np.zeros(1), sampled=1, local_steps=1, rounds=50)
    assert set(np.unique(added)) == {-1, 1}


@pytest.mark.parametrize("sampled", [1, 3, 4])
@pytest.mark.parametrize("local_steps", [1, 5, 100])
def test_sums_of_signs_have_mean_zero_and_the_variance_of_independent_ones(
    sampled: int, local_steps: int
) -> None:
    """A round moves the server by W/S, W a sum of k = Q S signs.

    Of independent ones E W = 0, E W^2 = k and E W^4 = 3 k^2 - 2 k, so that the mean of W^2 over N draws has
    variance (2 k^2 - 2 k) / N. Correlation between steps or lanes would show in E W^2.
    """
    rounds, trials = 2, 10_000
    total = sampled * signs(sampled=sampled, local_steps=local_steps, rounds=rounds, trials=trials)
    k, draws = sampled * local_steps, rounds * trials
    assert abs(total.mean()) < 4 * np.sqrt(k / draws)
    assert abs((total**2).mean() - k) <= 4 * np.sqrt((2 * k**2 - 2 * k) / draws) + 1e-9


def test_signs_are_uncorrelated_over_steps_and_trials() -> None:
    """One sign a round; products of independent signs have mean 0 and variance 1."""
    added = signs(offsets=np.zeros(1), sampled=1, local_steps=1, rounds=4000, trials=200)
    products = [added[:, lag:] * added[:, :-lag] for lag in (1, 2, 3, 7, 13, 17, 64)]
    products += [added[lag:] * added[:-lag] for lag in (1, 2, 36)]
    for product in [added, *products]:
        assert abs(product.mean()) < 4 / np.sqrt(product.size)


def test_first_signs_of_many_trials_are_balanced() -> None:
    """The state of a lane is fresh from its seed."""
    added = signs(offsets=np.zeros(1), sampled=1, local_steps=1, rounds=1, trials=100_000)
    assert abs(added.mean()) < 4 / np.sqrt(100_000)


def drawn(sampled: int, clients: int, rounds: int, trials: int) -> NDArray[np.bool_]:
    """Who was drawn, (trials, rounds, clients).

    Client i has offset 2^i and alpha is S, so that a round adds the sum of the sampled offsets: its binary
    digits say who was there. All numbers are integers far below 2^53.
    """
    chosen = work(
        start=0.0,
        offsets=2.0 ** np.arange(clients),
        sampled=sampled,
        local_steps=1,
        step_sizes=np.full(rounds, float(sampled)),
        records=np.arange(rounds + 1),
        trials=trials,
    )
    sums = np.diff(simulate(collect, "collect", chosen), axis=1)
    assert (sums == sums.round()).all()
    return (sums.astype(np.int64)[..., None] >> np.arange(clients)) & 1 == 1


@pytest.fixture(scope="module", params=[(1, 6), (2, 6), (3, 7), (5, 6), (6, 6)], ids=str)
def sampling(request: pytest.FixtureRequest) -> tuple[int, int, NDArray[np.bool_]]:
    """S, n and 60,000 draws."""
    sampled, clients = request.param
    return sampled, clients, drawn(sampled, clients, rounds=200, trials=300)


def within(frequency: Floats, probability: float, draws: int) -> bool:
    error = np.sqrt(probability * (1 - probability) / draws)
    return bool((np.abs(frequency - probability) <= 4 * error).all())


def test_every_draw_has_s_distinct_clients(sampling: tuple[int, int, NDArray[np.bool_]]) -> None:
    """With a client twice, or carries, S powers of two have a sum with fewer than S digits 1."""
    sampled, _, present = sampling
    assert (present.sum(axis=-1) == sampled).all()


def test_clients_and_pairs_are_equally_frequent(sampling: tuple[int, int, NDArray[np.bool_]]) -> None:
    sampled, n, present = sampling
    flat = present.reshape(-1, n).astype(float)
    together = flat.T @ flat / len(flat)
    pairs = together[np.triu_indices(n, 1)]
    assert within(np.diag(together), sampled / n, len(flat))
    assert within(pairs, sampled * (sampled - 1) / (n * (n - 1)), len(flat))


def test_first_draws_are_uniform_too() -> None:
    """The first round's draw is fresh from the seed of a trial."""
    present = drawn(sampled=2, clients=6, rounds=1, trials=60_000)
    assert within(present.mean(axis=(0, 1)), 1 / 3, 60_000)


def test_draws_of_successive_rounds_and_of_trials_are_independent(
    sampling: tuple[int, int, NDArray[np.bool_]],
) -> None:
    """The number of clients that two draws share is hypergeometric.

    Its mean is S^2 / n, its variance S^2 (n - S)^2 / (n^2 (n - 1)).
    """
    sampled, n, present = sampling
    spread = sampled * (n - sampled) / (n * np.sqrt(n - 1))
    for first, second in [(present[:, :-1], present[:, 1:]), (present[:-1], present[1:])]:
        shared = (first & second).sum(axis=-1)
        assert abs(shared.mean() - sampled**2 / n) <= 4 * spread / np.sqrt(shared.size) + 1e-12


def test_noise_does_not_know_who_is_sampled() -> None:
    """One of two clients a round: x moves by +-10^6 and the client's offset, 1 or 2; no correlation."""

    @njit
    def both(x, offset):  # type: ignore[no-untyped-def]
        return -offset, 1e6

    chosen = work(
        start=0.0,
        offsets=np.array([1.0, 2.0]),
        sampled=1,
        local_steps=1,
        step_sizes=np.ones(400),
        records=np.arange(401),
        trials=200,
    )
    moves = np.diff(simulate(both, "both", chosen), axis=1)
    sign = np.sign(moves)
    client = 2 * np.round(moves - 1e6 * sign) - 3  # -1 and 1
    assert set(np.unique(client)) == {-1, 1}
    assert abs((sign * client).mean()) < 4 / np.sqrt(sign.size)
