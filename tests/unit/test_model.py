"""Model plugins bound to a data set, and their initial weights."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedrepro.core.dropout import Dropout
from fedrepro.core.model import Model
from fedrepro.models import cnn, mlp


def papers(hidden: tuple[int, ...]) -> Model:
    return Model(cnn, (32, 32, 3), 10, cnn.Params((32, 32), hidden))


def test_size_of_the_svhn_network() -> None:
    """3*32*9+32 = 896; 32*32*9+32 = 9,248; 8*8*32*128+128 = 262,272; 128*10+10 = 1,290."""
    assert papers((128,)).size == 896 + 9_248 + 262_272 + 1_290 == 273_706


def test_size_of_the_cifar_network() -> None:
    """As above with 2048*256+256 = 524,544; 256*64+64 = 16,448; 64*10+10 = 650."""
    assert papers((256, 64)).size == 896 + 9_248 + 524_544 + 16_448 + 650 == 551_786


def test_size_of_the_cinic_network() -> None:
    """As above with 2048*512+512 = 1,049,088; 512*256+256 = 131,328; 256*10+10 = 2,570."""
    assert papers((512, 256)).size == 896 + 9_248 + 1_049_088 + 131_328 + 2_570 == 1_193_130


def test_dropout_silences_inputs_of_every_linear_layer_in_training_only() -> None:
    """All weights 1 and biases 0 on an image of ones: with dropout, sums of kept units at twice their value.

    One channel and 2 x 2 pixels: each sees the whole image, so the convolution gives 4 everywhere, pooled to
    one unit of 4. A dropped unit anywhere makes the output 0; kept ones double it in each of two layers.
    """
    model = Model(cnn, (2, 2, 1), 1, cnn.Params((1,), (1,), 0.5))
    flat = torch.tensor([1.0] * 9 + [0.0, 1.0, 0.0, 1.0, 0.0])
    assert model.size == len(flat)
    images = torch.ones(64, 1, 2, 2)
    assert (model.logits(flat, images) == 4).all()
    trained = model.logits(flat, images, dropout=Dropout(torch.tensor(5, dtype=torch.int32)))
    assert set(trained.ravel().tolist()) == {0.0, 16.0}
    assert float((trained > 0).float().mean()) == pytest.approx(0.25, abs=0.2)


def test_which_models_have_convolutions() -> None:
    assert papers((128,)).convolutional
    assert not Model(mlp, (28, 28, 1), 10, mlp.Params()).convolutional


def relu_then_pool(weights: list[Tensor], images: Tensor) -> Tensor:
    """The network as the papers draw it: convolution, ReLU, max-pool, then linear layers."""
    x = images
    for i in (0, 2):
        x = F.max_pool2d(torch.relu(F.conv2d(x, weights[i], weights[i + 1], padding=1)), 2)
    x = torch.relu(x.flatten(1) @ weights[4].T + weights[5])
    return x @ weights[6].T + weights[7]


def test_pooling_before_relu_changes_neither_value_nor_gradient() -> None:
    model = Model(cnn, (8, 8, 2), 3, cnn.Params((3, 5), (7,)))
    torch.manual_seed(1)
    images = torch.randn(6, 2, 8, 8, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    flat = model.initial(3, "mnist5k", torch.float64).requires_grad_()
    logits = model.logits(flat, images)
    sizes = [(3, 2, 3, 3), (3,), (5, 3, 3, 3), (5,), (7, 20), (7,), (3, 7), (3,)]
    parts = [
        part.view(shape) for part, shape in zip(flat.split([math.prod(s) for s in sizes]), sizes, strict=True)
    ]
    expected = relu_then_pool(parts, images)
    torch.testing.assert_close(logits, expected, rtol=1e-12, atol=1e-12)
    (ours,) = torch.autograd.grad(F.cross_entropy(logits, labels), flat)
    (theirs,) = torch.autograd.grad(F.cross_entropy(expected, labels), flat)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert ours.norm() > 0.01


def layers(model: Model, shapes: list[tuple[int, ...]], seed: int = 3) -> list[Tensor]:
    flat = model.initial(seed, "mnist5k", torch.float64)
    return [p.view(s) for p, s in zip(flat.split([math.prod(s) for s in shapes]), shapes, strict=True)]


SVHN = [(32, 3, 3, 3), (32,), (32, 32, 3, 3), (32,), (128, 2048), (128,), (10, 128), (10,)]


def test_initial_variances() -> None:
    """Kaiming: 2 / fan_in, so 2/27, 2/288 and 2/2048; the standard error of a variance is sqrt(2/n)."""
    parts = layers(papers((128,)), SVHN)
    for index, fan_in in ((0, 27), (2, 288), (4, 2048)):
        error = 5 * math.sqrt(2 / parts[index].numel())
        assert float(parts[index].square().mean()) * fan_in / 2 == pytest.approx(1, abs=error)
        assert float(parts[index].mean()) == pytest.approx(
            0, abs=5 * math.sqrt(2 / fan_in / parts[index].numel())
        )
    assert all(not parts[i].any() for i in (1, 3, 5))


def test_last_layer_is_uniform_within_its_bound() -> None:
    """U(-b, b), b = 128 ** -.5 = .0884, weight and bias; variance b^2 / 3."""
    *_, weight, bias = layers(papers((128,)), SVHN)
    bound = 128**-0.5
    assert bound * 0.98 < weight.abs().max() <= bound
    assert 0 < bias.abs().max() <= bound
    assert float(weight.square().mean()) == pytest.approx(bound**2 / 3, rel=0.15)


def test_initial_weights_depend_on_seed_data_set_and_layer_only() -> None:
    model = papers((128,))
    first = model.initial(3, "mnist5k", torch.float32)
    assert torch.equal(first, model.initial(3, "mnist5k", torch.float32))
    assert not torch.equal(first, model.initial(4, "mnist5k", torch.float32))
    assert not torch.equal(first, model.initial(3, "svhn", torch.float32))
    other = papers((256, 64)).initial(3, "mnist5k", torch.float32)
    assert torch.equal(first[: 896 + 9_248], other[: 896 + 9_248])


def test_layers_of_equal_shape_start_differently() -> None:
    first, _, second, *_ = layers(
        Model(mlp, (2, 2, 1), 3, mlp.Params((4, 4))), [(4, 4), (4,), (4, 4), (4,), (3, 4), (3,)]
    )
    assert not torch.equal(first, second)


def test_mlp_by_hand() -> None:
    """Two inputs (1, -2); hidden (relu(1 - -2), relu(-2 + 1)) = (3, 0); logits (3 + .5, -3)."""
    model = Model(mlp, (1, 2, 1), 2, mlp.Params((2,)))
    flat = torch.tensor([1.0, -1, 0, 1, 0, 1, 1, 5, -1, 7, 0.5, 0])
    logits = model.logits(flat, torch.tensor([1.0, -2.0]).view(1, 1, 1, 2))
    assert logits.tolist() == [[3.5, -3.0]]
