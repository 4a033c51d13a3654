"""pfl-research on the benchmark's workload, two workers of one thread each.

``python -m torch.distributed.run --standalone --nproc-per-node 2 -m benchmarks.peers.pfl_peer``
"""

import itertools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor

from benchmarks import workload
from benchmarks.ordinary import Batch, Net, cropped_batches


class PflNet(Net):
    """The network with the two methods that pfl asks for."""

    def loss(self, images: Tensor, labels: Tensor, eval: bool = False) -> Tensor:
        """Cross-entropy of a batch."""
        return F.cross_entropy(self(images), labels)

    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Nothing is evaluated."""
        return {}


class ClientData(PyTorchTensorDataset):
    """The images of one client, augmented."""

    def iter(self, batch_size: int | None) -> Iterator[Batch]:
        """The client's local steps, cropped."""
        return cropped_batches(*self.raw_data)


class Stopwatch(TrainingProcessCallback):
    """Ticks the clock after each round; the first worker's clock stops all."""

    def __init__(self, clock: workload.Clock):
        self._clock = clock

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Whether to stop, and no metrics."""
        stop = pytorch_ops.distributed.global_rank == 0 and self._clock.tick()
        (stopped,) = pytorch_ops.distributed.all_reduce([torch.tensor([float(stop)])])
        return bool(stopped.item()), Metrics()


def main() -> None:
    """Run one worker until the clock says stop."""
    clock = workload.Clock(workload.arguments().parse_args())
    allocator = workload.tune_allocator()
    torch.set_num_threads(1)
    images, labels = workload.normalised()
    clients = itertools.chain.from_iterable(workload.cohorts().tolist())
    data = FederatedDataset(
        lambda client: ClientData((images[client], labels[client]), user_id=str(client)),
        lambda: next(clients),
    )
    net = PflNet()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=workload.ROUNDS,
            evaluation_frequency=workload.ROUNDS + 1,
            train_cohort_size=workload.COHORT,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        NNTrainHyperParams(
            local_num_epochs=None,
            local_learning_rate=workload.LR,
            local_batch_size=workload.BATCH,
            local_num_steps=workload.LOCAL_STEPS,
            local_max_grad_norm=workload.CLIP_NORM,
        ),
        callbacks=[Stopwatch(clock)],
    )
    workers = pytorch_ops.distributed.world_size
    if pytorch_ops.distributed.global_rank == 0:
        settings = {
            "crop": "one offset a batch",
            "allocator": allocator,
            "layout": "NCHW",
            "data": "normalised float32 tensors in memory",
            "processes": workers,
            "workers": "torch.distributed, started by torchrun",
        }
        clock.report(torch.get_num_threads(), settings, ["pfl"])


if __name__ == "__main__":
    main()
