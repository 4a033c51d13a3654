"""A slow federated loop in NumPy float64, written from the papers' formulas.

It shares the project's keyed random streams and nothing else: gradients are worked out by hand, every
client walks through its shuffled images with an explicit queue, and the server's rules are plain loops.
The network has one hidden layer of ReLU units; its weights are W1 (h, n), b1, W2 (c, h), b2, flattened.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream

Vector = NDArray[np.float64]


@dataclass
class Data:
    """Images as rows (N, n), and labels."""

    images: Vector
    labels: NDArray[np.int64]


@dataclass
class Setting:
    """What a run needs; ``owner``: client of each training image; ``active``: (T, m)."""

    train: Data
    test: Data
    owner: NDArray[np.int64]
    active: NDArray[np.bool_]
    hidden: int
    classes: int
    seed: int
    steps: int
    batch: int
    eta0: float
    decay: bool
    eta_g: float
    max_norm: float | None


@dataclass
class Log:
    """The server's model after every round (0 = initial), and what was measured of each."""

    servers: list[Vector] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)


def unpack(setting: Setting, w: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    n, h, c = setting.train.images.shape[1], setting.hidden, setting.classes
    a, b = h * n, h * n + h
    return w[:a].reshape(h, n), w[a:b], w[b : b + c * h].reshape(c, h), w[b + c * h :]


def initial(setting: Setting) -> Vector:
    """Kaiming for the hidden layer with zero biases; uniform within 1/sqrt(h) for the last layer."""
    n, h, c = setting.train.images.shape[1], setting.hidden, setting.classes
    draws = [stream(setting.seed, "init", "mnist5k", i) for i in range(4)]
    first = draws[0].standard_normal((h, n)) * np.sqrt(2 / n)
    last, bias = draws[2].uniform(-1, 1, (c, h)) / h**0.5, draws[3].uniform(-1, 1, c) / h**0.5
    return np.concatenate([first.ravel(), np.zeros(h), last.ravel(), bias])


def forward(setting: Setting, w: Vector, x: Vector) -> tuple[Vector, Vector]:
    """Hidden activations and class probabilities of one image."""
    w1, b1, w2, b2 = unpack(setting, w)
    hidden = np.maximum(w1 @ x + b1, 0)
    logits = w2 @ hidden + b2
    exponent = np.exp(logits - logits.max())
    return hidden, exponent / exponent.sum()


def gradient(setting: Setting, w: Vector, batch: list[int]) -> Vector:
    """Gradient of the mean cross-entropy, image by image."""
    _, _, w2, _ = unpack(setting, w)
    total = np.zeros_like(w)
    for i in batch:
        x = setting.train.images[i]
        hidden, error = forward(setting, w, x)
        error[setting.train.labels[i]] -= 1
        back = (w2.T @ error) * (hidden > 0)
        parts = [np.outer(back, x).ravel(), back, np.outer(error, hidden).ravel(), error]
        total += np.concatenate(parts) / len(batch)
    return total


class Client:
    """The images of one client, handed out in shuffled epochs."""

    def __init__(self, setting: Setting, number: int) -> None:
        self.setting, self.number, self.epoch = setting, number, 0
        self.images = [i for i, owner in enumerate(setting.owner) if owner == number]
        self.queue: list[int] = []

    def next_batch(self) -> list[int]:
        size = min(self.setting.batch, len(self.images))
        if len(self.queue) < size:  # what is left of the epoch is dropped
            rng = stream(self.setting.seed, "batch", "mnist5k", self.number, self.epoch)
            self.queue, self.epoch = rng.permutation(self.images).tolist(), self.epoch + 1
        batch, self.queue = self.queue[:size], self.queue[size:]
        return batch

    def train(self, start: Vector, eta: float) -> Vector:
        w = start.copy()
        for _ in range(self.setting.steps):
            g = gradient(self.setting, w, self.next_batch())
            if self.setting.max_norm is not None:
                g = g * min(1.0, self.setting.max_norm / (float(np.sqrt((g**2).sum())) + 1e-6))
            w = w - eta * g
        return w


def measure(setting: Setting, w: Vector, data: Data) -> tuple[float, float]:
    """Mean loss and accuracy."""
    losses, right = [], 0
    for x, label in zip(data.images, data.labels, strict=True):
        _, probability = forward(setting, w, x)
        losses.append(-np.log(probability[label]))
        right += int(np.argmax(probability) == label)
    return float(np.mean(losses)), right / len(losses)


Rule = Callable[[Setting, Vector, list[Vector], list[int], int, float, list[Client]], Vector]


def fedavg_active(
    setting: Setting,
    x: Vector,
    local: list[Vector],
    active: list[int],
    t: int,
    eta: float,
    clients: list[Client],
) -> Vector:
    """Mean of the updates of those who are there."""
    updates = [clients[i].train(x, eta) - x for i in active]
    return x + setting.eta_g * sum(updates, np.zeros_like(x)) / max(len(active), 1)


def fedavg_all(
    setting: Setting,
    x: Vector,
    local: list[Vector],
    active: list[int],
    t: int,
    eta: float,
    clients: list[Client],
) -> Vector:
    """Mean over everybody, with zeros for the absent."""
    updates = [clients[i].train(x, eta) - x if i in active else np.zeros_like(x) for i in range(len(clients))]
    return x + setting.eta_g * sum(updates, np.zeros_like(x)) / len(clients)


def fedswe(k: float) -> Rule:
    """Echoes, and k virtual clients that hold the server's model; ``local`` are the clients' models."""

    def rule(
        setting: Setting,
        x: Vector,
        local: list[Vector],
        active: list[int],
        t: int,
        eta: float,
        clients: list[Client],
    ) -> Vector:
        if not active:
            return x
        proposals = []
        for i in active:
            update = clients[i].train(local[i], eta) - local[i]
            earlier = [s for s in range(t) if setting.active[s, i]]
            silence = t - earlier[-1] if earlier else t + 1
            proposals.append(local[i] + setting.eta_g * silence * update)
        new = (sum(proposals, np.zeros_like(x)) + k * x) / (len(active) + k)
        for i in active:
            local[i] = new
        return new

    return rule


def simulate(setting: Setting, rule: Rule) -> Log:
    """Run all rounds; measures the server's model and the mean of the clients' models after each."""
    rounds, m = setting.active.shape
    x = initial(setting)
    local, clients, log = [x] * m, [Client(setting, i) for i in range(m)], Log()
    for t in range(rounds + 1):
        log.servers.append(x)
        mean = sum(local, np.zeros_like(x)) / m
        spread = sum(float(((w - mean) ** 2).sum()) for w in local) / m
        for split, data in (("train", setting.train), ("test", setting.test)):
            for name, w in (("server", x), ("client_mean", mean)):
                loss, accuracy = measure(setting, w, data)
                key = {"round": t, "evaluated": name, "split": split}
                log.rows.append(key | {"loss": loss, "accuracy": accuracy, "consensus_error": spread})
        if t < rounds:
            eta = setting.eta0 / (t / 10 + 1) ** 0.5 if setting.decay else setting.eta0
            active = [i for i in range(m) if setting.active[t, i]]
            x = rule(setting, x, local, active, t, eta, clients)
    return log
