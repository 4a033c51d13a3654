"""Keyed random streams."""

import numpy as np
import pytest

from fedrepro.core.rng import PURPOSES, stream

GOLDEN: list[tuple[tuple[int, str, str, *tuple[int, ...]], list[float]]] = [
    ((3, "batch", "mnist5k", 0, 1), [0.41545924924187105, 0.253014618858891, 0.610955622209014]),
    ((3, "partition", "mnist5k"), [0.7447763666303926, 0.9642037316306802, 0.8963713060133583]),
    ((4, "trace", ""), [0.4510851115652015, 0.9246601004275139, 0.849763932257256]),
    ((3, "init", "mnist5k", 0), [0.12343946503350511, 0.7757831934879084, 0.6602654860172321]),
    ((3, "phi", "mnist5k"), [0.9800636608386099, 0.737279955621813]),
]


@pytest.mark.parametrize(("key", "draws"), GOLDEN)
def test_first_uniforms_are_golden(key: tuple[int, str, str, *tuple[int, ...]], draws: list[float]) -> None:
    assert stream(*key).random(len(draws)).tolist() == draws


def test_the_distributions_in_use_are_golden() -> None:
    """Permutations make batches, Dirichlet draws partitions, normals initial weights."""
    permutation = stream(3, "batch", "mnist5k", 0, 1).permutation(8)
    assert permutation.tolist() == [4, 3, 6, 2, 1, 5, 0, 7]
    share = stream(3, "partition", "mnist5k").dirichlet([0.5] * 3)
    np.testing.assert_allclose(
        share, [0.2914452836922174, 0.6902222266738276, 0.018332489633955076], rtol=1e-12
    )
    normal = stream(3, "init", "mnist5k", 0).standard_normal(3)
    np.testing.assert_allclose(
        normal, [-1.147241311643127, -0.2958906668498659, -0.4198315194086069], rtol=1e-12
    )


def test_every_part_of_the_key_counts() -> None:
    keys: list[tuple[int, str, str, *tuple[int, ...]]] = [
        (3, "batch", "mnist5k", 0, 1),
        (4, "batch", "mnist5k", 0, 1),
        (3, "trace", "mnist5k", 0, 1),
        (3, "batch", "svhn", 0, 1),
        (3, "batch", "mnist5k", 1, 0),
        (3, "batch", "mnist5k", 0),
        (3, "batch", "mnist5k"),
        (3, "batch", "mnist5k", 1),
        (3, "batch", "mnist5k", 0, 11),
        (3, "batch", "mnist5k", 0, 1, 1),
        *((3, purpose, "") for purpose in PURPOSES),
    ]
    draws = {tuple(stream(*key).integers(0, 2**62, 2).tolist()) for key in keys}
    assert len(draws) == len(keys)


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown purpose 'fedswe'"):
        stream(3, "fedswe", "mnist5k")


def test_a_stream_does_not_depend_on_what_was_drawn_before() -> None:
    first = stream(3, "batch", "mnist5k", 5, 0)
    other = stream(3, "batch", "mnist5k", 6, 0)
    interleaved = []
    for _ in range(4):
        interleaved.append(first.random())
        other.random(3)
    assert interleaved == stream(3, "batch", "mnist5k", 5, 0).random(4).tolist()


def test_global_generators_are_left_alone() -> None:
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    stream(3, "batch", "mnist5k").random(10)
    np.testing.assert_equal(np.random.get_state(), before)  # noqa: NPY002
