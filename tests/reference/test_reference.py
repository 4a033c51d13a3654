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
from tests.reference import slow
from tests.reference.slow import Data, Log, Rule, Setting

TOLERANCE = 1e-9
CLIENTS = 4
SIZES = (17, 12, 8, 3)  # the last client has fewer images than a batch of 4
RULES: dict[str, tuple[Choice, Rule]] = {
    "fedavg_active": (Choice("fedavg_active"), slow.fedavg_active),
    "incentfedavg, no game": (Choice("incentfedavg"), slow.incentfedavg),
    "fedavg_all": (Choice("fedavg_all"), slow.fedavg_all),
    "fedavg_known": (Choice("fedavg_known"), slow.fedavg_known),
    "fedau": (Choice("fedau"), slow.fedau(50)),
    "fedau, cutoff 2": (Choice("fedau", {"cutoff": 2}), slow.fedau(2)),
    "f3ast": (Choice("f3ast", {"beta": 0.2, "cap": 2}), slow.f3ast(0.2, 2)),
    "f3ast, one": (Choice("f3ast", {"cap": 1, "initial_rate": 0.7}), slow.f3ast(0.001, 1, 0.7)),
    "f3ast, cap above m": (Choice("f3ast", {"beta": 0.1}), slow.f3ast(0.1, 10)),
    "f3ast, no cap": (
        Choice("f3ast", {"beta": 0.3, "cap": None, "initial_rate": 0.6}),
        slow.f3ast(0.3, None, 0.6),
    ),
    "f3ast, rate of round 0": (Choice("f3ast", {"beta": 0.2, "cap": None}), slow.f3ast(0.2, None)),
    "gfedavg": (Choice("gfedavg", {"amplification": 2.5, "period": 3}), slow.gfedavg(2.5, 3)),
    "mifa": (Choice("mifa"), slow.mifa()),
    "mifa, normalised": (Choice("mifa", {"normalise": True}), slow.mifa(normalise=True)),
    "fedvarp": (Choice("fedvarp"), slow.fedvarp()),
    "fedvarp, mean when empty": (Choice("fedvarp", {"empty": "mean"}), slow.fedvarp("mean")),
    "fedswe, k = 0": (Choice("fedswe"), slow.fedswe(0)),
    "fedswe, k = m": (Choice("fedswe", {"k_over_m": 1.0}), slow.fedswe(CLIENTS)),
    "fedswe, k = 1.5": (Choice("fedswe", {"k_over_m": 0.375}), slow.fedswe(1.5)),
    "fedswe, clipped": (Choice("fedswe", {"echo_clip": 0.5}), slow.fedswe(0, 0.5)),
    "fedswe, k = m, clipped": (
        Choice("fedswe", {"k_over_m": 1.0, "echo_clip": 0.2}),
        slow.fedswe(CLIENTS, 0.2),
    ),
}
EVALUATED = {"fedswe": {"server", "client_mean"}, "gfedavg": {"server", "pre_stretch"}}
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
    return Data(split.normalise(split.images).flatten(1).numpy(), split.labels.numpy())


def setting_of(spec: TrainSpec, task: Task) -> Setting:
    return Setting(
        train=data(task.train),
        test=data(task.test),
        owner=task.client.astype(np.int64),
        active=task.active,
        probability=task.probability,
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
    probability = np.random.default_rng(8).uniform(0.2, 1, trace.shape)
    task = Task(task.train, task.test, owner, task.active, probability)
    spy = Spy(spec)
    outcome = run_engine(spec, task, algorithm=spy)
    assert outcome.status == "ok"
    return spy, outcome.metrics, slow.simulate(setting_of(spec, task), rule)


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
@pytest.mark.parametrize(("algorithm", "rule"), RULES.values(), ids=RULES)
def test_weights_and_metrics_agree(
    algorithm: Choice, rule: Rule, trace: NDArray[np.bool_], changes: dict[str, Any]
) -> None:
    spy, metrics, log = both(algorithm, rule, trace, **changes)
    assert len(spy.servers) == len(log.servers) == len(trace) + 1
    for ours, theirs in zip(spy.servers, log.servers, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=TOLERANCE)
    assert np.abs(log.servers[-1] - log.servers[0]).max() > 0.01
    expected = {(row["round"], row["evaluated"], row["split"]): row for row in log.rows}
    rows = metrics.to_pylist()
    models = EVALUATED.get(algorithm.name, {"server"})
    assert {row["evaluated"] for row in rows} == models
    assert len(rows) == 2 * len(models) * (len(trace) + 1)
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
