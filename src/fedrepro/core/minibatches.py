"""What local training draws at random: minibatches, crops, flips and dropout keys of a round.

All of it is a function of (seed, data set, client, trace) alone, so that algorithms of a seed share it, and
neither the order of clients nor an interruption changes it.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrepro.core.rng import stream
from fedrepro.core.spec import TrainSpec
from fedrepro.errors import FedreproError


class Minibatches(NamedTuple):
    """The draws of one round for a cohort of K clients and s local steps.

    ``images``: training-image indices, int64 (K, s, B); row k uses the first ``sizes[k]`` of each step, the
    rest is padding. ``sizes``: int64 (K,). ``shifts``: crop corners, int64 (K, s, 1 or B, 2), or None;
    ``flips``: bool (K, s, 1 or B), or None: one for a minibatch, or one for each of its images.
    ``dropout``: int32 keys (K, s).
    """

    images: NDArray[np.int64]
    sizes: NDArray[np.int64]
    shifts: NDArray[np.int64] | None
    flips: NDArray[np.bool_] | None
    dropout: NDArray[np.int32]

    def rows(self, chosen: slice) -> "Minibatches":
        """The draws of some of the clients."""
        return Minibatches(
            self.images[chosen],
            self.sizes[chosen],
            None if self.shifts is None else self.shifts[chosen],
            None if self.flips is None else self.flips[chosen],
            self.dropout[chosen],
        )


class Sampler:
    """Draws the minibatches of every client and round.

    Each client goes through its images in shuffled epochs without replacement; the short last batch is
    dropped, the position persists across the rounds in which the client is available, and a client with
    fewer images than a batch uses all of them every step.

    Parameters
    ----------
    client : int array, shape (N,)
        Client of each training image.
    active : bool array, shape (T, m)
        The availability trace, from which positions follow.
    spec : TrainSpec
        For the seed, the data set, batch size, local steps and augmentation.
    """

    def __init__(self, client: NDArray[np.integer], active: NDArray[np.bool_], spec: TrainSpec):
        by_client = np.argsort(client, kind="stable")
        sizes = np.bincount(client, minlength=spec.partition.clients)
        self._images = np.split(by_client, np.cumsum(sizes)[:-1])
        self._sizes = np.minimum(sizes, spec.batch_size)
        self._earlier: NDArray[np.int64] = np.cumsum(active, axis=0) - active
        self._spec = spec
        self._epoch = lru_cache(maxsize=2 * spec.partition.clients)(self._shuffled)

    def draw(self, clients: NDArray[np.integer], t: int) -> Minibatches:
        """The minibatches of the given clients (K,) in round t."""
        spec, sizes = self._spec, self._batch(clients, t)
        images = np.zeros((len(clients), spec.local_steps, max(sizes, default=1)), dtype=np.int64)
        for row, client in enumerate(clients.tolist()):
            images[row, :, : sizes[row]] = self._steps(client, t)
        shifts, flips = self._augmentation(clients, t, images.shape[2])
        rng = stream(spec.seed, "dropout", spec.dataset, t)
        keys = rng.integers(-(2**31), 2**31, (spec.partition.clients, spec.local_steps), dtype=np.int32)
        return Minibatches(images, sizes, shifts, flips, keys[clients])

    def _batch(self, clients: NDArray[np.integer], t: int) -> NDArray[np.int64]:
        """Images in a step of the given clients in round t."""
        return self._sizes[clients]

    def _shuffled(self, client: int, epoch: int) -> NDArray[np.int64]:
        rng = stream(self._spec.seed, "batch", self._spec.dataset, client, epoch)
        return rng.permutation(self._images[client])

    def _steps(self, client: int, t: int) -> NDArray[np.int64]:
        """The client's images in round t, (s, B), cut from the epochs that the round touches."""
        size = int(self._sizes[client])
        per_epoch = len(self._images[client]) // size
        first = self._spec.local_steps * int(self._earlier[t, client])
        step, stop, parts = first, first + self._spec.local_steps, []
        while step < stop:
            epoch, offset = divmod(step, per_epoch)
            taken = min(per_epoch - offset, stop - step)
            parts.append(self._epoch(client, epoch)[offset * size : (offset + taken) * size])
            step += taken
        return np.concatenate(parts).reshape(-1, size)

    def _augmentation(
        self, clients: NDArray[np.integer], t: int, batch: int
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        """Crops and flips of the given clients in round t, cut from one draw for everybody."""
        spec = self._spec
        if not (spec.crop or spec.flip):
            return None, None
        rng = stream(spec.seed, "augment", spec.dataset, t)
        drawn = spec.batch_size if spec.augment_per == "image" else 1
        shape = (spec.partition.clients, spec.local_steps, drawn)
        shifts = rng.integers(0, 2 * spec.crop + 1, (*shape, 2))[clients, :, :batch]
        flips = rng.random(shape)[clients, :, :batch] < 0.5
        return shifts if spec.crop else None, flips if spec.flip else None


class SubsetSampler(Sampler):
    """Draws from a random subset of each client's images, anew in every round (IncentFedAvg, Algorithm 1).

    A client that contributes N_i images in a round goes through ``ceil(N_i)`` random ones of its own in
    shuffled epochs, from the beginning, as `Sampler` does.

    Parameters
    ----------
    client, active, spec
        As for `Sampler`.
    contributions : float array, shape (T, m)
        N_i of every round.

    Raises
    ------
    FedreproError
        If a client is to contribute more images than it holds.
    """

    def __init__(
        self,
        client: NDArray[np.integer],
        active: NDArray[np.bool_],
        contributions: NDArray[np.float64],
        spec: TrainSpec,
    ):
        super().__init__(client, active, spec)
        self._subset = np.ceil(contributions).astype(np.int64)
        held = np.array([len(images) for images in self._images])
        if (self._subset > held).any():
            t, who = np.argwhere(self._subset > held)[0]
            raise FedreproError(
                f"key 'participation.upper': client {who} is to train on {self._subset[t, who]} images in "
                f"round {t}, but holds {held[who]}; lower its bound, or give it more images"
            )

    def _batch(self, clients: NDArray[np.integer], t: int) -> NDArray[np.int64]:
        return np.minimum(self._subset[t, clients], self._spec.batch_size)

    def _steps(self, client: int, t: int) -> NDArray[np.int64]:
        size = int(min(self._subset[t, client], self._spec.batch_size))
        rng = stream(self._spec.seed, "subset", self._spec.dataset, t, client)
        epoch = rng.permutation(self._images[client])[: self._subset[t, client]]
        per_epoch = len(epoch) // size
        parts = [epoch]
        while len(parts) * per_epoch < self._spec.local_steps:
            parts.append(rng.permutation(epoch))
        whole = np.concatenate([part[: per_epoch * size] for part in parts]).reshape(-1, size)
        return whole[: self._spec.local_steps]
