"""Everything that is fixed before a run starts: evaluation rounds, step sizes, minibatches."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream
from fedrepro.core.spec import Evaluation, ScalarSpec, TrainSpec

FIRST_TRIALS = 100  # the papers' number of trials: averages over these stand beside those over all


def evaluation_rounds(rounds: int, evaluation: Evaluation, split: str) -> list[int]:
    """Completed rounds after which a split is evaluated; 0 is the initial model, T always included."""
    every = evaluation.test_every if split == "test" else evaluation.train_every
    window = max(rounds - evaluation.final_rounds, 0)
    regular = set(range(0, rounds + 1, every))
    final = set(range(rounds, window, -evaluation.final_every))
    return sorted(regular | final | {rounds})


def recorded_rounds(spec: ScalarSpec) -> NDArray[np.int64]:
    """Completed rounds that a scalar cell records: 0, T, and evenly and geometrically spaced ones between."""
    even = np.linspace(0, spec.rounds, spec.records // 2 + 1)
    geometric = np.geomspace(1, spec.rounds, spec.records // 2 + 1)[: spec.records // 2]
    return np.unique(np.concatenate([[0, spec.rounds], even, geometric]).round().astype(np.int64))


def local_lr(spec: TrainSpec, t: int) -> float:
    """Local step size of round t: ``eta_0``, or ``eta_0 / sqrt(t / 10 + 1)`` (FedSWE paper, Table 5)."""
    decay = (t / 10 + 1) ** -0.5 if spec.lr_schedule == "inverse_sqrt" else 1.0
    return spec.local_lr * decay


class Batches:
    """Minibatch indices of every client and round, a function of (seed, data set, client, trace) alone.

    Each client goes through its images in shuffled epochs without replacement; the short last batch is
    dropped, the position persists across the rounds in which the client is available, and a client with
    fewer images than a batch uses all of them every step.

    Parameters
    ----------
    client : int array, shape (N,)
        Client of each training image.
    active : bool array, shape (T, m)
        The availability trace, from which positions follow.
    spec : TrainSpec
        For the seed, the data set, the batch size and the number of local steps.
    """

    def __init__(self, client: NDArray[np.integer], active: NDArray[np.bool_], spec: TrainSpec):
        self._images = [np.flatnonzero(client == i) for i in range(spec.partition.clients)]
        self._earlier: NDArray[np.int64] = np.cumsum(active, axis=0) - active
        self._spec = spec
        self._epoch = lru_cache(maxsize=2 * spec.partition.clients)(self._shuffled)

    def _shuffled(self, client: int, epoch: int) -> NDArray[np.int64]:
        rng = stream(self._spec.seed, "batch", self._spec.dataset, client, epoch)
        return rng.permutation(self._images[client])

    def of(self, client: int, t: int) -> list[NDArray[np.int64]]:
        """Training-image indices of the client's local steps in round t: s arrays of <= B indices."""
        size = min(self._spec.batch_size, len(self._images[client]))
        per_epoch = len(self._images[client]) // size
        first = self._spec.local_steps * int(self._earlier[t, client])
        batches = []
        for step in range(first, first + self._spec.local_steps):
            epoch, offset = divmod(step, per_epoch)
            batches.append(self._epoch(client, epoch)[offset * size : (offset + 1) * size])
        return batches
