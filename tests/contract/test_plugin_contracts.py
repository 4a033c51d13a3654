"""What every data set, dynamics, model, analysis, figure and table must keep."""

import dataclasses
import io
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F

from fedrepro.cells import analysis as analysis_cell
from fedrepro.core import registry
from fedrepro.core.availability import participation, probabilities
from fedrepro.core.data import tensors
from fedrepro.core.job import Context, bind
from fedrepro.core.model import Model
from fedrepro.core.prepared import open_split
from fedrepro.core.spec import AnalysisSpec, Choice, PrepareSpec
from fedrepro.core.tables import decode
from fedrepro.errors import FedreproError
from fedrepro.inputs import prepare
from fedrepro.plan.cards import card, prepare_spec
from fedrepro.plan.config import read_yaml
from fedrepro.plan.plan import make_plan
from fedrepro.provenance.header import Header
from fedrepro.provenance.manifest import cell_spec
from tests.archives import Small, small
from tests.helpers import ROOT, FinishedCell, finish_cell, shared_inputs, spec_of, write_with_sidecar

KINDS_WITH_PARAMS = ("analysis", "dynamics", "game", "model")
CHOICES = [(kind, name) for kind in KINDS_WITH_PARAMS for name in registry.names(kind)]
DOWNLOADED = [name for name in registry.names("dataset") if card(name).files]
EMBEDDED = [name for name in registry.names("dataset") if not card(name).files]
TARGETS = [(kind, name) for kind in ("figure", "table") for name in registry.names(kind)]


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_every_kind_has_a_plugin(kind: str) -> None:
    assert registry.names(kind)
    for name in registry.names(kind):
        assert str(registry.load(kind, name).__doc__).strip()


@pytest.mark.parametrize(("kind", "name"), CHOICES)
def test_params_are_frozen_and_have_defaults(kind: str, name: str) -> None:
    value: Any = registry.load(kind, name).Params()
    assert hasattr(value, "__dataclass_fields__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.anything = 1
    assert dataclasses.asdict(Header(kind, name).params()()) == dataclasses.asdict(value)


@pytest.mark.parametrize("name", registry.names("dynamics"))
class TestDynamics:
    """With 20 clients, which the default numbers of groups divide."""

    BASE = np.linspace(0, 1, 20)

    def of(self, name: str, rounds: int, base: Any = BASE) -> Any:
        return probabilities(*bind("dynamics", Choice(name)), np.array(base, dtype=float), rounds)

    def active(self, name: str, rounds: int, seed: int = 3) -> Any:
        dynamics, params = bind("dynamics", Choice(name))
        return participation(dynamics, params, self.of(name, rounds), seed, "mnist5k")

    def test_values_are_probabilities_of_the_right_shape(self, name: str) -> None:
        base = self.BASE.copy()
        found = probabilities(*bind("dynamics", Choice(name)), base, 83)
        assert found.shape == (83, 20)
        assert found.dtype == np.float64
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 1)).all()
        assert found.max() > 0.3
        assert (base == self.BASE).all()

    def test_a_longer_run_starts_with_the_shorter(self, name: str) -> None:
        assert (self.of(name, 50)[:19] == self.of(name, 19)).all()

    def test_a_higher_base_is_never_less_available(self, name: str) -> None:
        low, high = self.of(name, 160, [0.2] * 20), self.of(name, 160, [0.6] * 20)
        assert (low <= high).all()

    def test_a_client_without_images_is_never_available(self, name: str) -> None:
        assert not self.of(name, 160)[:, 0].any()
        assert not self.active(name, 160)[:, 0].any()

    def test_periods_have_equal_bits(self, name: str) -> None:
        params = registry.load("dynamics", name).Params()
        period = getattr(params, "period", getattr(params, "groups", 1))
        found = self.of(name, 40 * period)
        assert all((found[i * period : (i + 1) * period] == found[:period]).all() for i in range(40))

    def test_who_is_available_is_a_prefix_stable_function_of_the_seed(self, name: str) -> None:
        found = self.active(name, 160)
        assert found.shape == (160, 20)
        assert found.dtype == np.bool_
        assert (self.active(name, 160) == found).all()
        assert (self.active(name, 33) == found[:33]).all()
        assert (self.active(name, 160, seed=4) != found).any()

    def test_frequencies_match_the_probability(self, name: str) -> None:
        """Per client over 4,000 rounds; a sum of independent Bernoulli has variance sum_t p (1 - p)."""
        probability, active = self.of(name, 4000), self.active(name, 4000)
        deviation = np.sqrt((probability * (1 - probability)).sum(axis=0))
        assert (abs(active.sum(axis=0) - probability.sum(axis=0)) <= 5 * deviation).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", registry.names("model"))
class TestModel:
    def make(self, name: str, shape: tuple[int, int, int]) -> Model:
        plugin, params = bind("model", Choice(name))
        return Model(plugin, shape, 10, params)

    def images(self, shape: tuple[int, int, int], dtype: torch.dtype) -> torch.Tensor:
        rng = np.random.default_rng(5)
        return torch.from_numpy(rng.standard_normal((6, shape[2], *shape[:2]))).to(dtype)

    @pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
    def test_logits(self, name: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
        model = self.make(name, shape)
        flat = model.initial(3, "mnist5k", dtype)
        assert flat.shape == (model.size,)
        assert flat.dtype == dtype
        logits = model.logits(flat, self.images(shape, dtype))
        assert logits.shape == (6, 10)
        assert logits.dtype == dtype
        assert torch.isfinite(logits).all()
        assert logits.std() > 1e-3

    def test_gradients_reach_every_weight_tensor(self, name: str, dtype: torch.dtype) -> None:
        plugin, params = bind("model", Choice(name))
        model = self.make(name, (28, 28, 1))
        flat = model.initial(3, "mnist5k", dtype).requires_grad_()
        loss = F.cross_entropy(model.logits(flat, self.images((28, 28, 1), dtype)), torch.arange(6))
        (gradient,) = torch.autograd.grad(loss, flat)
        assert torch.isfinite(gradient).all()
        sizes = [int(np.prod(weight.shape)) for weight in plugin.weights((28, 28, 1), 10, params)]
        assert sum(sizes) == model.size
        assert all(part.abs().max() > 0 for part in gradient.split(sizes))

    def test_an_image_is_scored_alone_as_in_a_batch(self, name: str, dtype: torch.dtype) -> None:
        model = self.make(name, (28, 28, 1))
        flat, images = model.initial(3, "mnist5k", dtype), self.images((28, 28, 1), dtype)
        alone = torch.cat([model.logits(flat, image[None]) for image in images])
        tolerance = 1e-4 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(alone, model.logits(flat, images), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", registry.names("dataset"))
def test_a_data_set_says_what_it_is(name: str) -> None:
    module, facts, found = registry.load("dataset", name), card(name), Header("dataset", name)
    assert len(module.MEAN) == len(module.STD) == module.SHAPE[2]
    assert len(module.NAMES) == len(set(module.NAMES)) == module.CLASSES
    assert all(len(counts) == module.CLASSES for counts in facts.counts.values())
    assert all(facts.model_dump()[key].strip() for key in ("title", "source", "licence", "citation"))
    for constant in ("SHAPE", "CLASSES", "NAMES", "MEAN", "STD"):
        assert found.constant(constant) == getattr(module, constant), "read without an import"


@pytest.mark.parametrize("name", EMBEDDED)
class TestEmbeddedDataset:
    def test_images_labels_and_card_agree(self, name: str, tmp_path: Path) -> None:
        module, facts = registry.load("dataset", name), card(name)
        splits = module.load({}, Context())
        assert set(splits) == {"train", "test"}
        result = prepare.run(prepare_spec(name), {}, Context())  # loads once more
        for split, (images, labels) in splits.items():
            assert images.shape == (facts.samples[split], *module.SHAPE)
            assert labels.shape == (facts.samples[split],)
            assert images.dtype == labels.dtype == np.uint8
            assert np.bincount(labels).tolist() == facts.counts[split]
            records = np.load(io.BytesIO(result.files[split].content))
            assert (records["image"] == images).all()
            assert (records["label"] == labels).all()
            assert result.files[split].rows == facts.samples[split]
            path = tmp_path / f"{split}.npy"
            path.write_bytes(result.files[split].content)
            found = tensors(open_split(path), module, torch.float32)
            height, width, depth = module.SHAPE
            normalised = found.normalise(found.images)
            assert normalised.shape == (facts.samples[split], depth, height, width)
            assert abs(float(normalised.mean())) < 0.2
            assert abs(float(normalised.std()) - 1) < 0.2

    def test_another_version_of_the_source_is_refused(self, name: str) -> None:
        with pytest.raises(FedreproError, match=rf"data set {name}: .*SHA-256 {card(name).sha256}"):
            prepare.run(PrepareSpec(name, "0" * 64), {}, Context())


@pytest.mark.parametrize("name", DOWNLOADED)
class TestDownloadedDataset:
    """On a small stand-in for the published files, in their exact format."""

    def stand_in(self, name: str, folder: Path) -> tuple[PrepareSpec, Small, dict[str, Path]]:
        made = small(name)
        files = {key: folder / card(name).files[key].name for key in made.files}
        for key, content in made.files.items():
            files[key].write_bytes(content)
        counts = {split: np.bincount(labels).tolist() for split, (_, labels) in made.splits.items()}
        return replace(prepare_spec(name), sha256=None, counts=counts), made, files

    def test_the_whole_way_to_a_cell(self, name: str, tmp_path: Path) -> None:
        spec, made, files = self.stand_in(name, tmp_path)
        module = registry.load("dataset", name)
        prepared = {}
        for split, (content, rows) in prepare.run(spec, files, Context()).files.items():
            images, labels = made.splits[split]
            prepared[split] = write_with_sidecar(tmp_path / f"{split}.npy", content, rows)
            records = open_split(prepared[split])
            assert isinstance(records, np.memmap)
            assert (records["image"] == images).all() and (records["label"] == labels).all()
            assert records["image"].shape[1:] == module.SHAPE and rows == len(labels)
        training = spec_of(dataset=name)
        inputs = shared_inputs(training, prepared, tmp_path)
        cell = finish_cell(training, inputs, tmp_path / "cells")
        assert cell.manifest()["status"] == "ok"

    def test_two_readings_give_the_same_bytes(self, name: str, tmp_path: Path) -> None:
        spec, _, files = self.stand_in(name, tmp_path)
        first, second = (prepare.run(spec, files, Context(threads=threads)).files for threads in (1, 2))
        assert first == second

    def test_other_counts_than_the_published_are_refused(self, name: str, tmp_path: Path) -> None:
        spec, _, files = self.stand_in(name, tmp_path)
        counts = {"train": [12] * 9 + [13], "test": spec.counts["test"]}
        with pytest.raises(
            FedreproError, match=rf"data set {name}, split train: 120 images, .*, but 121 were"
        ):
            prepare.run(replace(spec, counts=counts), files, Context())

    def test_other_content_is_refused(self, name: str, tmp_path: Path) -> None:
        spec, _, files = self.stand_in(name, tmp_path)
        with pytest.raises(FedreproError, match=rf"data set {name}: .*SHA-256"):
            prepare.run(replace(spec, sha256="0" * 64), files, Context())


@cache
def tiny_analyses() -> dict[str, AnalysisSpec]:
    """An analysis of each kind as the tiny tier runs it."""
    plan = make_plan(ROOT, {"tier": "tiny"})
    specs = (cell_spec(cell, job.spec) for cell, job in plan.cells.items() if job.step == "analysis")
    return {spec.analysis.name: spec for spec in specs}


@pytest.mark.parametrize("name", registry.names("analysis"))
class TestAnalysis:
    def spec(self, name: str) -> AnalysisSpec:
        """A specification with just the fields that the analysis says it needs."""
        offered: dict[str, Any] = {
            "dataset": "mnist5k",
            "partition": spec_of().partition,
            "dynamics": Choice("sine"),
            "algorithm": Choice("fedswe"),
            "problem": Choice("huber40"),
            "rounds": 30,
        }
        needs = Header("analysis", name).constant("NEEDS", ())
        if "game" in needs:  # each wants its own game, and enough rounds of it
            return tiny_analyses()[name]
        return AnalysisSpec(Choice(name), 3, **{field: offered[field] for field in needs})

    def run(self, name: str, cell: FinishedCell, spec: AnalysisSpec | None = None) -> bytes:
        inputs = {"partition": Path(cell.planned.inputs["partition"])}
        return analysis_cell.run(spec or self.spec(name), inputs, Context()).files["metrics"].content

    def test_table(self, name: str, pristine: FinishedCell) -> None:
        table = decode(self.run(name, pristine))
        module = registry.load("analysis", name)
        assert table.schema.equals(module.SCHEMA)
        assert len(table) > 0
        for column in table.columns:
            assert column.null_count == 0
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()

    def test_two_runs_give_the_same_bytes(self, name: str, pristine: FinishedCell) -> None:
        assert self.run(name, pristine) == self.run(name, pristine)


def test_class_counts_add_up_to_the_training_set(pristine: FinishedCell) -> None:
    counts = decode(TestAnalysis().run("class_counts", pristine)).to_pandas()
    assert counts["images"].sum() == card("mnist5k").samples["train"]
    assert counts.groupby("label")["images"].sum().tolist() == [400] * 10
    assert len(counts) == 4 * 10


def test_base_probabilities_are_those_of_the_trace(pristine: FinishedCell) -> None:
    """Under stationary dynamics p_i^t = p_i."""
    found = decode(TestAnalysis().run("base_probabilities", pristine)).to_pandas()
    trace = pq.read_table(pristine.planned.inputs["trace"]).to_pandas()
    first = trace[trace["round"] == 0].sort_values("client")
    assert found["probability"].tolist() == first["probability"].tolist()


def test_availability_sample_follows_its_base_rates(pristine: FinishedCell) -> None:
    choice = Choice("availability_sample", {"base": (0.0, 0.5, 1.0)})
    spec = AnalysisSpec(choice, 3, dynamics=Choice("stationary"), rounds=200)
    sample = decode(TestAnalysis().run("availability_sample", pristine, spec)).to_pandas()
    share = sample.groupby("base")["active"].mean()
    assert share[0.0] == 0
    assert share[1.0] == 1
    assert 0.3 < share[0.5] < 0.7
    assert (sample["probability"] == sample["base"]).all()


@pytest.mark.parametrize(("kind", "name"), TARGETS)
def test_targets_are_named_captioned_and_made_from_experiments(kind: str, name: str) -> None:
    found = Header(kind, name)
    paper, number, needs = (found.constant(key) for key in ("PAPER", "ID", "NEEDS"))
    assert name == f"{paper}_{number}"
    assert isinstance(needs, tuple)
    assert needs
    caption = ROOT / "workflow" / "report" / f"{name}.rst"
    assert len(caption.read_text().strip()) > 20
    grid = read_yaml(ROOT / "config" / "papers" / paper / "grid.yaml")
    assert {f"{paper}_{experiment}" for experiment in grid["experiments"]} >= set(needs)
    module = registry.load(kind, name)
    assert (paper, number, needs) == (module.PAPER, module.ID, module.NEEDS)
    functions = ("data", "draw") if kind == "figure" else ("build",)
    assert all(callable(getattr(module, function)) for function in functions)


def test_a_partition_of_the_real_data_is_whole(pristine: FinishedCell) -> None:
    table = pq.read_table(pristine.planned.inputs["partition"]).to_pandas()
    assert table["sample"].tolist() == list(range(card("mnist5k").samples["train"]))
    assert table["client"].between(0, spec_of().partition.clients - 1).all()
    assert table["label"].value_counts().tolist() == [400] * 10
