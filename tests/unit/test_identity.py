"""Canonical JSON and the ids made from it."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from fedrepro.core.spec import (
    AnalysisSpec,
    Choice,
    Evaluation,
    Participation,
    Partition,
    PartitionSpec,
    TrainSpec,
    build,
    canonical,
)
from fedrepro.provenance.identity import canonical_json, cell_id, dumps, job_id
from tests.helpers import SPEC, spec_of

GOLDEN = "train-mnist5k-stationary-fedavg_active-s3-1b87e6c1a490"
GOLDEN_JSON = (
    '{"algorithm":{"name":"fedavg_active"},"batch_size":5,"clip":"none","dataset":"mnist5k",'
    '"dynamics":{"name":"stationary"},"evaluation":{"final_every":1,"final_rounds":2,"test_every":1,'
    '"train_every":2},"kind":"train","local_lr":0.1,"local_steps":2,"lr_schedule":"inverse_sqrt",'
    '"model":{"name":"mlp","params":{"hidden":[]}},"partition":{"alpha":0.5,"clients":4},"rounds":4,"seed":3}'
)
CHANGED: dict[str, Any] = {
    "dataset": "svhn",
    "seed": 4,
    "partition": Partition(clients=5, alpha=0.5),
    "dynamics": Choice("sine"),
    "algorithm": Choice("fedavg_all"),
    "model": Choice("mlp", {"hidden": (8,)}),
    "rounds": 5,
    "local_steps": 3,
    "batch_size": 6,
    "local_lr": 0.2,
    "lr_schedule": "constant",
    "clip": "local_grad",
    "evaluation": Evaluation(test_every=1, train_every=2, final_rounds=3, final_every=1),
    "clip_norm": 1.0,
    "global_lr": 2.0,
    "numerics": "fp64",
    "crop": 4,
    "flip": True,
    "augment_per": "image",
    "game": Choice("discovery"),
    "participation": Participation(upper=(9, 8, 7, 6), step_size=2.0),
}


def test_canonical_json_is_golden_and_leaves_defaults_out() -> None:
    assert canonical_json(SPEC) == GOLDEN_JSON


def test_cell_id_is_golden() -> None:
    assert cell_id(SPEC) == GOLDEN


def test_a_field_at_its_default_does_not_enter_the_id() -> None:
    explicit = replace(SPEC, clip_norm=0.5, global_lr=1.0, numerics="fp32", dynamics=Choice("stationary", {}))
    assert cell_id(explicit) == GOLDEN


def test_every_field_has_a_changed_value_here() -> None:
    assert set(CHANGED) == {field.name for field in fields(TrainSpec)} - {"kind"}


def test_every_changed_field_changes_the_hash() -> None:
    hashes = {cell_id(spec_of(**{name: value}))[-12:] for name, value in CHANGED.items()}
    assert len(hashes | {GOLDEN[-12:]}) == len(CHANGED) + 1


def test_parts_of_nested_fields_count() -> None:
    specs = [
        spec_of(partition=Partition(4, 0.6)),
        spec_of(algorithm=Choice("fedswe")),
        spec_of(algorithm=Choice("fedswe", {"k_over_m": 1.0})),
        spec_of(algorithm=Choice("fedswe", {"k_over_m": 0.5})),
        spec_of(model=Choice("mlp", {"hidden": (8, 9)})),
        spec_of(model=Choice("mlp", {"hidden": (9, 8)})),
    ]
    assert len({cell_id(spec)[-12:] for spec in specs}) == len(specs)


def test_the_order_of_keys_does_not_matter() -> None:
    assert dumps({"b": 1, "a": {"d": 2, "c": 3}}) == dumps({"a": {"c": 3, "d": 2}, "b": 1})
    assert dumps({"b": [2, 1], "a": "é"}) == '{"a":"\\u00e9","b":[2,1]}'
    one, two = Choice("x", {"a": 1, "b": 2}), Choice("x", {"b": 2, "a": 1})
    assert cell_id(spec_of(algorithm=one)) == cell_id(spec_of(algorithm=two))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(spec_of(local_lr=value))


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_the_canonical_form_rebuilds_the_specification(name: str) -> None:
    text = canonical_json(spec_of(**{name: CHANGED[name]}))
    rebuilt = build(TrainSpec, json.loads(text))
    assert canonical_json(rebuilt) == text
    assert cell_id(rebuilt) != GOLDEN


def test_kind_always_stands_in_the_canonical_form() -> None:
    assert canonical(SPEC)["kind"] == "train"
    assert canonical(AnalysisSpec(Choice("class_counts"), 3))["kind"] == "analysis"


def test_ids_leave_out_what_a_cell_does_not_have() -> None:
    spec = AnalysisSpec(Choice("availability_sample"), 3, dynamics=Choice("sine"), rounds=4)
    assert cell_id(spec).startswith("analysis-sine-availability_sample-s3-")
    plain = AnalysisSpec(Choice("class_counts"), 3, dataset="mnist5k", partition=Partition(4, 0.5))
    assert cell_id(plain).startswith("analysis-mnist5k-class_counts-s3-")


def test_shared_inputs_are_named_by_words_and_hash() -> None:
    spec = PartitionSpec("mnist5k", 3, Partition(4, 0.5))
    name = job_id(3, canonical_json(spec), "mnist5k", "m4")
    assert name.startswith("mnist5k-m4-s3-")
    assert len(name.rsplit("-", 1)[1]) == 12
