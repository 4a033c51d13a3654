"""The engine and every algorithm against the slow loop, in float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrepro.core import registry
from fedrepro.core.data import Split
from fedrepro.core.engine import Task
from fedrepro.core.spec import Choice, Evaluation, TrainSpec
from tests.helpers import CLASSES, Spy, run_engine, spec_of, synthetic_task, trace_of
from tests.reference.slow import Data, Log, Rule, Setting, fedavg_active, fedavg_all, fedswe, simulate

TOLERANCE = 1e-9
CLIENTS = 4
SIZES = (17, 12, 8, 3)  # the last client has fewer images than a batch of 4
RULES: dict[str, tuple[Choice, Rule]] = {
    "fedavg_active": (Choice("fedavg_active"), fedavg_active),
    "fedavg_all": (Choice("fedavg_all"), fedavg_all),
    "fedswe, k = 0": (Choice("fedswe"), fedswe(0)),
    "fedswe, k = m": (Choice("fedswe", {"k_over_m": 1.0}), fedswe(CLIENTS)),
    "fedswe, k = 1.5": (Choice("fedswe", {"k_over_m": 0.375}), fedswe(1.5)),
}
# Everybody, one client, nobody, two who missed different rounds, nobody twice, one, everybody.
MIXED = trace_of([0, 1, 2, 3], [2], [], [0, 3], [1, 2], [], [], [3], [0, 1, 2, 3])
# Nobody at first, and client 1 never.
LATE = trace_of([], [0], [0, 2], [3], [0, 2, 3])
TRACES = {"mixed": MIXED, "late": LATE, "full": trace_of(*[[0, 1, 2, 3]] * 4)}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped, constant, eta_g = 1.5": {"clip": "local_grad", "lr_schedule": "constant", "global_lr": 1.5},
}


def data(split: Split) -> Data:
    return Data(split.images.flatten(1).numpy(), split.labels.numpy())


def setting_of(spec: TrainSpec, task: Task) -> Setting:
    return Setting(
        train=data(task.train),
        test=data(task.test),
        owner=task.client.astype(np.int64),
        active=task.active,
        hidden=spec.model.params["hidden"][0],
        classes=CLASSES,
        seed=spec.seed,
        steps=spec.local_steps,
        batch=spec.batch_size,
        eta0=spec.local_lr,
        decay=spec.lr_schedule == "inverse_sqrt",
        eta_g=spec.global_lr,
        max_norm=spec.clip_norm if spec.clip == "local_grad" else None,
    )


def both(algorithm: Choice, rule: Rule, trace: NDArray[np.bool_], **changes: Any) -> tuple[Spy, Any, Log]:
    """The engine's weights and metrics, and the slow loop's log, of one run."""
    spec = spec_of(
        algorithm=algorithm,
        model=Choice("mlp", {"hidden": (6,)}),
        rounds=len(trace),
        local_steps=3,
        batch_size=4,
        local_lr=0.3,
        numerics="fp64",
        evaluation=Evaluation(test_every=1, train_every=1, final_rounds=0, final_every=1),
        **changes,
    )
    task = synthetic_task(spec, trace)
    owner = np.repeat(np.arange(CLIENTS, dtype=np.int32), SIZES)
    task = Task(task.train, task.test, owner, task.active, task.probability)
    spy = Spy(spec)
    outcome = run_engine(spec, task, algorithm=spy)
    assert outcome.status == "ok"
    return spy, outcome.metrics, simulate(setting_of(spec, task), rule)


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
@pytest.mark.parametrize(("algorithm", "rule"), RULES.values(), ids=RULES)
def test_weights_and_metrics_agree(
    algorithm: Choice, rule: Rule, trace: NDArray[np.bool_], changes: dict[str, Any]
) -> None:
    spy, metrics, log = both(algorithm, rule, trace, **changes)
    assert len(spy.servers) == len(log.servers) == len(trace) + 1
    for ours, slow in zip(spy.servers, log.servers, strict=True):
        np.testing.assert_allclose(ours.numpy(), slow, rtol=0, atol=TOLERANCE)
    assert np.abs(log.servers[-1] - log.servers[0]).max() > 0.01
    expected = {(row["round"], row["evaluated"], row["split"]): row for row in log.rows}
    rows = metrics.to_pylist()
    models = 2 if algorithm.name == "fedswe" else 1
    assert len(rows) == 2 * models * (len(trace) + 1)
    for row in rows:
        slow_row = expected[row["round"], row["evaluated"], row["split"]]
        assert row["loss"] == pytest.approx(slow_row["loss"], abs=TOLERANCE)
        assert row["accuracy"] == slow_row["accuracy"]
        if algorithm.name == "fedswe":
            assert row["consensus_error"] == pytest.approx(slow_row["consensus_error"], abs=TOLERANCE)
        else:
            assert row["consensus_error"] is None
        assert row["active"] == (trace[row["round"] - 1].sum() if row["round"] else 0)


def test_the_slow_rules_differ_from_one_another() -> None:
    """Or agreement would say little."""
    finals = [both(*pair, MIXED)[2].servers[-1] for pair in RULES.values()]
    for i, one in enumerate(finals):
        for other in finals[i + 1 :]:
            assert np.abs(one - other).max() > 1e-3


def test_every_algorithm_has_a_reference() -> None:
    assert {choice.name for choice, _ in RULES.values()} == set(registry.names("algorithm"))
