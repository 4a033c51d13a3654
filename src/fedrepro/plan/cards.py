"""What is known of a data set from outside: ``datasets/<name>.yaml``.

Of a card, only counts, checksums and the content hash reach a job's specification: a change of a mirror, a
licence or a citation reruns nothing.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from fedrepro.core import registry
from fedrepro.core.spec import PrepareSpec
from fedrepro.plan.config import Strict, read_yaml
from fedrepro.plan.messages import explain

DATA = "results/data"  # raw and prepared data, shared by all tiers
UNKNOWN = "unknown"
SplitName = Literal["train", "test"]
Positive = Annotated[int, Field(ge=1)]


class RemoteFile(Strict):
    """A file as its publisher offers it. ``checksum`` is ``md5:...``, ``sha256:...`` or ``unknown``."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    bytes: Positive
    checksum: Annotated[str, Field(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}|unknown)$")]
    urls: Annotated[list[Annotated[str, Field(pattern=r"^https?://")]], Field(min_length=1)]


class DatasetCard(Strict):
    """A data set: where it comes from, what it must hold, and what may be done with it."""

    title: str
    source: str
    licence: str
    citation: str
    normalisation: str
    counts: dict[SplitName, list[Positive]]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    files: dict[str, RemoteFile] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> "DatasetCard":
        if set(self.counts) != {"train", "test"}:
            raise ValueError("counts must hold the images of each class for train and for test")
        if self.sha256 is None and not self.files:
            raise ValueError("give sha256, the hash of its content, or files, what to download")
        return self

    @property
    def samples(self) -> dict[SplitName, int]:
        """Number of images of each split."""
        return {split: sum(counts) for split, counts in self.counts.items()}


@cache
def card(dataset: str) -> DatasetCard:
    """The card of a data set."""
    path = registry.PACKAGE_ROOT / registry.FOLDERS["dataset"] / f"{dataset}.yaml"
    try:
        return DatasetCard.model_validate_json(json.dumps(read_yaml(path), default=str))
    except ValidationError as error:
        raise explain(error, str(path), DatasetCard) from error


def prepare_spec(dataset: str) -> PrepareSpec:
    """What the card says of the content; the embedded data set is known by its hash alone."""
    facts = card(dataset)
    if not facts.files:
        return PrepareSpec(dataset, facts.sha256)
    archives = {key: file.checksum for key, file in facts.files.items()}
    return PrepareSpec(dataset, facts.sha256, archives, dict[str, Sequence[int]](facts.counts.items()))


def raw_files(dataset: str) -> dict[str, str]:
    """Where the files of a data set lie once they are downloaded; empty for one that needs no download."""
    return {key: f"{DATA}/raw/{dataset}/{file.name}" for key, file in card(dataset).files.items()}
