"""How much there is to compute in a cell, from its specification alone: what an estimate scales with."""

import json
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedrepro.core.availability import probabilities
from fedrepro.core.job import bind
from fedrepro.core.partition import base_probabilities
from fedrepro.core.schedule import evaluation_rounds
from fedrepro.core.spec import Choice, PartitionSpec, ScalarSpec, TrainSpec, build
from fedrepro.plan.cards import card
from fedrepro.provenance.header import header
from fedrepro.provenance.identity import canonical_json

TRAINING_PASSES = 3  # forward and backward of one image, in forward passes
NAMED_BY = {"scalar": "problem", "game": "game", "analysis": "analysis"}
FEW_ROUNDS = 2000  # of a dynamics are enough for its mean


class Work(NamedTuple):
    """Forward passes of images in training and in evaluation; of a scalar cell, stochastic gradients."""

    training: float
    evaluation: float = 0.0


def work(spec: Any) -> Work:
    """The work of a cell; every game and every analysis counts as one."""
    if isinstance(spec, TrainSpec):
        images = mean_cohort(spec) * spec.local_steps * spec.batch_size
        return Work(spec.rounds * images * TRAINING_PASSES, _evaluated_images(spec))
    if isinstance(spec, ScalarSpec):
        return Work(float(spec.trials) * spec.rounds * spec.local_steps * spec.sampled)
    return Work(1.0)


def alike(spec: Any) -> str:
    """What cells have in common whose seconds are as their work: data, network, precision, minibatches."""
    if isinstance(spec, TrainSpec):
        network = canonical_json(spec.model)
        parts = (spec.dataset, network, spec.numerics, f"{spec.local_steps}x{spec.batch_size}")
        return " ".join(("train", *parts))
    return f"{spec.kind} {getattr(spec, NAMED_BY[spec.kind]).name}"


def mean_cohort(spec: TrainSpec) -> float:
    """Clients that are expected to be available in a round, as if every client held all classes alike."""
    shared = PartitionSpec(spec.dataset, spec.seed, spec.partition)
    return _mean_cohort(canonical_json(shared), canonical_json(spec.dynamics), spec.rounds)


@cache
def _mean_cohort(partition: str, dynamics: str, rounds: int) -> float:
    shared = build(PartitionSpec, json.loads(partition))
    classes = header("dataset", shared.dataset).constant("CLASSES")
    alike = np.ones((shared.partition.clients, classes), dtype=np.int64)
    plugin, params = bind("dynamics", build(Choice, json.loads(dynamics)))
    base = base_probabilities(alike, shared)
    return float(probabilities(plugin, params, base, min(rounds, FEW_ROUNDS)).sum(1).mean())


def _evaluated_images(spec: TrainSpec) -> float:
    models = header("algorithm", spec.algorithm.name).constant("EVALUATED", ("server",))
    samples = card(spec.dataset).samples.items()
    looks = sum(len(evaluation_rounds(spec.rounds, spec.evaluation, split)) * n for split, n in samples)
    return float(len(models) * looks)


def state_mb(spec: TrainSpec) -> float:
    """A run's state in MB, as a checkpoint holds it: tables of m x d where an algorithm has some.

    Imports the model's plugin, and PyTorch with it.
    """
    tables = header("algorithm", spec.algorithm.name).constant("MEMORY") == "m*d"
    weights = _weights(spec.dataset, canonical_json(spec.model))
    return 4e-6 * weights * (1 + spec.partition.clients * tables)


@cache
def _weights(dataset: str, model: str) -> int:
    """d, the number of weights."""
    from fedrepro.core.model import Model

    facts = header("dataset", dataset)
    plugin, params = bind("model", build(Choice, json.loads(model)))
    return Model(plugin, facts.constant("SHAPE"), facts.constant("CLASSES"), params).size
