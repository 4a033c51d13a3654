"""Everything that is fixed before a run starts: evaluation rounds, recorded rounds, step sizes."""

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.spec import Evaluation, GameSpec, ScalarSpec, TrainSpec

FIRST_TRIALS = 100  # the papers' number of trials: averages over these stand beside those over all


def evaluation_rounds(rounds: int, evaluation: Evaluation, split: str) -> list[int]:
    """Completed rounds after which a split is evaluated; 0 is the initial model, T always included."""
    every = evaluation.test_every if split == "test" else evaluation.train_every
    window = max(rounds - evaluation.final_rounds, 0)
    regular = set(range(0, rounds + 1, every))
    final = set(range(rounds, window, -evaluation.final_every))
    return sorted(regular | final | {rounds})


def recorded_rounds(spec: ScalarSpec | GameSpec) -> NDArray[np.int64]:
    """Completed rounds that a scalar or game cell records: 0, T, and a choice between.

    Half of them are evenly, half geometrically spaced.
    """
    even = np.linspace(0, spec.rounds, spec.records // 2 + 1)
    geometric = np.geomspace(1, spec.rounds, spec.records // 2 + 1)[: spec.records // 2]
    return np.unique(np.concatenate([[0, spec.rounds], even, geometric]).round().astype(np.int64))


def local_lr(spec: TrainSpec, t: int) -> float:
    """Local step size of round t: ``eta_0``, or ``eta_0 / sqrt(t / 10 + 1)`` (FedSWE paper, Table 5)."""
    decay = (t / 10 + 1) ** -0.5 if spec.lr_schedule == "inverse_sqrt" else 1.0
    return spec.local_lr * decay
