"""What a job computes: frozen specifications, one class per kind of job.

A specification holds everything that determines a result and nothing else. Required fields have no
default; every default is the neutral value, left out of the canonical form, so that a field added later
does not change the identity of results that exist (see ``docs/identity.md``). Ranges stand in the
annotations, where the plan checks them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Le

Count = Annotated[int, Ge(1)]
T = TypeVar("T")
STRICT = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Choice:
    """A plugin and the parameters that differ from its defaults."""

    __pydantic_config__ = STRICT
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Partition:
    """How the training images are spread over clients: Dirichlet(alpha) over classes, or at random.

    Clients and classes are cut into ``groups`` equal blocks; a block of clients shares a block of classes
    (FedSWE paper, Section 7.1, with two groups). ``iid`` gives every client as many random images, ``sized``
    gives client i ``sizes[i]`` of them (IncentFedAvg paper, N_max of Section 5); both ignore the classes,
    and ``alpha``. ``streams`` also rules the base probabilities and the trace: ``legacy`` is the NumPy stream
    of the authors' released code, which knows only ``dirichlet`` with one group.
    """

    __pydantic_config__ = STRICT
    clients: Count
    alpha: Annotated[float, Gt(0)]
    groups: Count = 1
    assignment: Literal["dirichlet", "iid", "sized"] = "dirichlet"
    streams: Literal["keyed", "legacy"] = "keyed"
    sizes: tuple[Count, ...] = ()


@dataclass(frozen=True)
class Participation:
    """How the clients of a game change their numbers of images N_i (IncentFedAvg paper, Algorithm 1).

    Client i keeps ``lower <= N_i <= upper[i]`` and starts at ``lower + start (upper[i] - lower)``. Steps are
    ``step_size (r + 1)^-step_decay`` in round r; the welfare loss of a game that has one weighs
    ``welfare_weight (r + 1)^-welfare_decay`` (Section 2.2).
    """

    __pydantic_config__ = STRICT
    upper: tuple[Count, ...]
    step_size: Annotated[float, Gt(0)]
    lower: Annotated[float, Ge(0)] = 1.0
    start: Annotated[float, Ge(0), Le(1)] = 0.5
    step_decay: Annotated[float, Ge(0)] = 0.0
    welfare_weight: Annotated[float, Ge(0)] = 0.0
    welfare_decay: Annotated[float, Ge(0)] = 0.0

    def __post_init__(self) -> None:
        """There is a choice for every client."""
        for client, largest in enumerate(self.upper):
            if largest < self.lower:
                raise ValueError(
                    f"lower = {self.lower} is above upper[{client}] = {largest}: N_min must not exceed N_max"
                )


@dataclass(frozen=True)
class Evaluation:
    """When a run is evaluated, in completed rounds; the final window is what tables average over."""

    __pydantic_config__ = STRICT
    test_every: Count
    train_every: Count
    final_rounds: Annotated[int, Ge(0)]
    final_every: Count


@dataclass(frozen=True)
class PrepareSpec:
    """A data set in its prepared form.

    ``sha256``: of its content, where that is known. A data set that is downloaded has the checksums of its
    ``archives`` (``md5:...``, ``sha256:...`` or ``unknown``, by key) and per split the images of each class.
    """

    __pydantic_config__ = STRICT
    dataset: str
    sha256: str | None = None
    archives: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionSpec:
    """A partition of one data set for one seed."""

    __pydantic_config__ = STRICT
    dataset: str
    seed: int
    partition: Partition


@dataclass(frozen=True)
class TraceSpec:
    """Who is available when, for one partition and seed."""

    __pydantic_config__ = STRICT
    dataset: str
    seed: int
    partition: Partition
    dynamics: Choice
    rounds: Count


@dataclass(frozen=True)
class TrainSpec:
    """One federated training run (FedSWE paper, Section 7 and Tables 5 and 6).

    ``crop``: pixels of padding for random crops; ``flip``: random horizontal flips; both drawn once for a
    minibatch, as the authors' released code does, or for every image. ``numerics``: ``tf32`` and ``bf16``
    compute products in fewer bits, weights stay in 32. With a ``game`` every client trains on a random
    subset of its images, whose size it changes by ``participation``.
    """

    __pydantic_config__ = STRICT
    dataset: str
    seed: Annotated[int, Ge(0)]
    partition: Partition
    dynamics: Choice
    algorithm: Choice
    model: Choice
    rounds: Count
    local_steps: Count
    batch_size: Count
    local_lr: Annotated[float, Gt(0)]
    lr_schedule: Literal["constant", "inverse_sqrt"]
    clip: Literal["none", "local_grad"]
    evaluation: Evaluation
    kind: Literal["train"] = "train"
    clip_norm: Annotated[float, Gt(0)] = 0.5
    global_lr: Annotated[float, Gt(0)] = 1.0
    numerics: Literal["fp32", "tf32", "bf16", "fp64"] = "fp32"
    crop: Annotated[int, Ge(0)] = 0
    flip: bool = False
    augment_per: Literal["batch", "image"] = "batch"
    game: Choice | None = None
    participation: Participation | None = None


@dataclass(frozen=True)
class AnalysisSpec:
    """A quantity that needs no training: a closed form, or a summary of a partition or trace.

    ``algorithm``: one that is run on objectives whose local training has a closed form.
    """

    __pydantic_config__ = STRICT
    analysis: Choice
    seed: Annotated[int, Ge(0)]
    kind: Literal["analysis"] = "analysis"
    dataset: str | None = None
    partition: Partition | None = None
    dynamics: Choice | None = None
    algorithm: Choice | None = None
    problem: Choice | None = None
    rounds: Annotated[int | None, Ge(1)] = None
    game: Choice | None = None
    participation: Participation | None = None


@dataclass(frozen=True)
class ScalarSpec:
    """FedAvg with partial participation on a scalar problem, many trials (partial-participation paper, IV).

    ``step_size`` is alpha, or alpha times the number of local steps where ``step_size_of`` is ``round``. It
    decays as ``(1 + t / decay_rounds) ** -decay_power``. About ``records`` rounds between 0 and ``rounds``
    are recorded, and every recorded round of the first ``paths`` trials is kept.
    """

    __pydantic_config__ = STRICT
    problem: Choice
    seed: Annotated[int, Ge(0)]
    rounds: Count
    sampled: Count
    local_steps: Count
    step_size: Annotated[float, Gt(0)]
    trials: Annotated[int, Ge(2)]
    records: Count
    kind: Literal["scalar"] = "scalar"
    step_size_of: Literal["step", "round"] = "step"
    decay_power: Annotated[float, Ge(0)] = 0.0
    decay_rounds: Annotated[float, Gt(0)] = 1.0
    paths: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True)
class GameSpec:
    """How participation evolves in a game, without training (IncentFedAvg paper, Section 5).

    About ``records`` rounds between 0 and ``rounds`` are recorded.
    """

    __pydantic_config__ = STRICT
    game: Choice
    participation: Participation
    seed: Annotated[int, Ge(0)]
    rounds: Count
    records: Count
    kind: Literal["game"] = "game"


CellSpec = TrainSpec | ScalarSpec | GameSpec | AnalysisSpec
CELL_KINDS: dict[str, type[CellSpec]] = {
    "train": TrainSpec,
    "scalar": ScalarSpec,
    "game": GameSpec,
    "analysis": AnalysisSpec,
}


def build(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build a specification from its canonical form (validated when the plan was made)."""
    hints = get_type_hints(cls)
    known: dict[str, Any] = {}
    for name, value in data.items():
        parts = [hints[name], *getattr(hints[name], "__args__", ())]
        nested = next((p for p in parts if isinstance(p, type) and is_dataclass(p)), None)
        if nested and value is not None:
            value = build(nested, value)
        known[name] = tuple(value) if isinstance(value, list) else value
    return cls(**known)


def canonical(spec: Any) -> dict[str, Any]:
    """The fields that differ from their neutral value, as plain JSON types."""
    out: dict[str, Any] = {}
    for name, neutral in _neutral_values(spec.__class__):
        value = getattr(spec, name)
        if name == "kind" or value != neutral:
            out[name] = _plain(value)
    return out


@cache
def _neutral_values(cls: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (item.name, item.default if item.default_factory is MISSING else item.default_factory())
        for item in fields(cls)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return canonical(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value
