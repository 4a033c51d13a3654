"""The interleaved sine, by hand."""

import numpy as np

from fedrepro.dynamics import interleaved_sine, sine


def test_silent_where_the_sine_is_low() -> None:
    """gamma 0.3, P 20: f is 0.7, 1 and 0.4 at t = 0, 5 and 15. Base 0.2 gives 0.14, 0.2 and 0.08 < 0.1."""
    found = interleaved_sine.probability(interleaved_sine.Params(), np.array([0.2]), np.array([0, 5, 15]))
    np.testing.assert_allclose(found[:, 0], [0.14, 0.2, 0.0], atol=1e-15)
    assert found[2, 0] == 0.0


def test_threshold_zero_is_the_sine() -> None:
    base, t = np.linspace(0, 1, 5), np.arange(43)
    mine = interleaved_sine.probability(interleaved_sine.Params(threshold=0.0), base, t)
    np.testing.assert_array_equal(mine, sine.probability(sine.Params(), base, t))
