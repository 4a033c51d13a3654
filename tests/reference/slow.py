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
    """What a run needs; ``owner``: client of each training image; ``active``, ``probability``: (T, m)."""

    train: Data
    test: Data
    owner: NDArray[np.int64]
    active: NDArray[np.bool_]
    probability: Vector
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

    def skip(self) -> None:
        """Let the batches of a round go by."""
        for _ in range(self.setting.steps):
            self.next_batch()


def measure(setting: Setting, w: Vector, data: Data) -> tuple[float, float]:
    """Mean loss and accuracy."""
    losses, right = [], 0
    for x, label in zip(data.images, data.labels, strict=True):
        _, probability = forward(setting, w, x)
        losses.append(-np.log(probability[label]))
        right += int(np.argmax(probability) == label)
    return float(np.mean(losses)), right / len(losses)


@dataclass
class Round:
    """What a rule sees of round t; ``local``, the clients' models, and ``memory`` outlast the round."""

    setting: Setting
    t: int
    eta: float
    x: Vector
    active: list[int]
    clients: list[Client]
    local: list[Vector]
    memory: dict[str, Any]

    def update(self, i: int) -> Vector:
        """Delta_i of a client that starts from the server's model."""
        return self.clients[i].train(self.x, self.eta) - self.x

    def zero(self) -> Vector:
        return np.zeros_like(self.x)

    def step(self, v: Vector) -> Vector:
        return self.x + self.setting.eta_g * v


Rule = Callable[[Round], Vector]


def fedavg_active(now: Round) -> Vector:
    """Mean of the updates of those who are there."""
    updates = [now.update(i) for i in now.active]
    return now.step(sum(updates, now.zero()) / max(len(now.active), 1))


def incentfedavg(now: Round) -> Vector:
    """Mean of the updates of those who are there, by the number of their images."""
    updates = {i: now.update(i) for i in now.active}
    held = {i: len(now.clients[i].images) for i in now.active}
    v = now.zero()
    for i, update in updates.items():
        v = v + held[i] / sum(held.values()) * update
    return now.step(v)


def fedavg_all(now: Round) -> Vector:
    """Mean over everybody, with zeros for the absent."""
    updates = [now.update(i) if i in now.active else now.zero() for i in range(len(now.clients))]
    return now.step(sum(updates, now.zero()) / len(now.clients))


def fedavg_known(now: Round) -> Vector:
    """As over all, each update divided by the probability that its client was there."""
    v = now.zero()
    for i in now.active:
        v = v + now.update(i) / (len(now.clients) * now.setting.probability[now.t, i])
    return now.step(v)


def fedau(cutoff: int) -> Rule:
    """As over all, each update times the mean of its client's intervals that ended in earlier rounds."""

    def rule(now: Round) -> Vector:
        v = now.zero()
        for i in now.active:
            intervals, length = [], 0
            for there in now.setting.active[: now.t, i]:
                length += 1
                if there or length == cutoff:
                    intervals.append(length)
                    length = 0
            v = v + now.update(i) * (np.mean(intervals) if intervals else 1) / len(now.clients)
        return now.step(v)

    return rule


def f3ast(beta: float, cap: int | None, initial_rate: float | None = None) -> Rule:
    """Those who were chosen least train; their updates are divided by how often they are chosen."""

    def rule(now: Round) -> Vector:
        m = len(now.clients)
        if now.t == 0:
            default = (max(len(now.active), 1) if cap is None else min(cap, m)) / m
            now.memory["rate"] = [default if initial_rate is None else initial_rate] * m
        rate = now.memory["rate"]
        tie = stream(now.setting.seed, "select", "mnist5k", now.t).random(m)
        chosen = sorted(now.active, key=lambda i: (rate[i], tie[i]))[:cap]
        for i in range(m):
            rate[i] = (1 - beta) * rate[i] + (beta if i in chosen else 0)
        v = now.zero()
        for i in now.active:
            if i in chosen:
                v = v + now.update(i) / rate[i] / m
            else:
                now.clients[i].skip()
        return now.step(v)

    return rule


def gfedavg(amplification: float, period: int) -> Rule:
    """Plain steps of size one; every ``period`` rounds the way since the last stretch is stretched."""

    def rule(now: Round) -> Vector:
        anchor = now.memory.setdefault("anchor", now.x)
        new = now.x + sum([now.update(i) for i in now.active], now.zero()) / max(len(now.active), 1)
        now.memory["pre_stretch"] = new
        if now.t % period == period - 1:
            new = anchor + amplification * (new - anchor)
            now.memory["anchor"] = new
        return new

    return rule


def mifa(normalise: bool = False) -> Rule:
    """Mean of everybody's latest update, zero for those never there, in every round."""

    def rule(now: Round) -> Vector:
        m = len(now.clients)
        latest = now.memory.setdefault("latest", [now.zero()] * m)
        for i in now.active:
            latest[i] = now.update(i) / (now.eta if normalise else 1)
        return now.step((now.eta if normalise else 1) * sum(latest, now.zero()) / m)

    return rule


def fedvarp(empty: str = "zero") -> Rule:
    """Mean change of the updates of those who are there, plus the mean of everybody's earlier update."""

    def rule(now: Round) -> Vector:
        latest = now.memory.setdefault("latest", [now.zero()] * len(now.clients))
        v = sum(latest, now.zero()) / len(latest)
        if not now.active:
            return now.step(v) if empty == "mean" else now.x
        updates = {i: now.update(i) for i in now.active}
        for i, update in updates.items():
            v = v + (update - latest[i]) / len(now.active)
        for i, update in updates.items():
            latest[i] = update
        return now.step(v)

    return rule


def echo(now: Round, i: int) -> int:
    """Rounds since the client was last there, counted from round -1 when it never was."""
    earlier = [s for s in range(now.t) if now.setting.active[s, i]]
    return now.t - earlier[-1] if earlier else now.t + 1


def fedswe(k: float, echo_clip: float | None = None) -> Rule:
    """Echoes, and k virtual clients that hold the server's model; the joint innovation may be clipped."""

    def rule(now: Round) -> Vector:
        if not now.active:
            return now.x
        base, innovation = k * now.x, now.zero()
        for i in now.active:
            update = now.clients[i].train(now.local[i], now.eta) - now.local[i]
            base = base + now.local[i]
            innovation = innovation + echo(now, i) * update
        base, innovation = base / (len(now.active) + k), innovation / (len(now.active) + k)
        norm = float(np.sqrt((innovation**2).sum()))
        if echo_clip is not None and norm > echo_clip:
            innovation = innovation * (echo_clip / norm)
        new = base + now.setting.eta_g * innovation
        for i in now.active:
            now.local[i] = new
        return new

    return rule


def simulate(setting: Setting, rule: Rule) -> Log:
    """Run all rounds; measures the server's model and others that an algorithm may record after each."""
    rounds, m = setting.active.shape
    x = initial(setting)
    local, clients, log = [x] * m, [Client(setting, i) for i in range(m)], Log()
    memory: dict[str, Any] = {}
    for t in range(rounds + 1):
        log.servers.append(x)
        mean = sum(local, np.zeros_like(x)) / m
        spread = sum(float(((w - mean) ** 2).sum()) for w in local) / m
        models = {"server": x, "client_mean": mean, "pre_stretch": memory.get("pre_stretch", x)}
        for split, data in (("train", setting.train), ("test", setting.test)):
            for name, w in models.items():
                loss, accuracy = measure(setting, w, data)
                key = {"round": t, "evaluated": name, "split": split}
                log.rows.append(key | {"loss": loss, "accuracy": accuracy, "consensus_error": spread})
        if t < rounds:
            eta = setting.eta0 / (t / 10 + 1) ** 0.5 if setting.decay else setting.eta0
            active = [i for i in range(m) if setting.active[t, i]]
            x = rule(Round(setting, t, eta, x, active, clients, local, memory))
    return log
