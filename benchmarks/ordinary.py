"""Federated averaging as it is ordinarily written: ``python -m benchmarks.ordinary --variant usual``.

``usual``: what most code does. A copy of the model for every client, a data set of PIL images with
torchvision's transforms behind a DataLoader, PyTorch's default number of threads.

``best``: the same loop, still `nn.Module`, `torch.optim.SGD` and `clip_grad_norm_` in the default layout,
with everything around it as fast as its settings allow: images as normalised tensors, one crop offset a
batch, no DataLoader, one thread, a tuned allocator. The driver runs two of them at once.
"""

import copy
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks import workload
from benchmarks.workload import BATCH, CLIP_NORM, IMAGES, LOCAL_STEPS, LR, PADDING

Batch = tuple[Tensor, Tensor]


class Net(nn.Module):
    """The SVHN network of the FedSWE paper's Table 5."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc1 = nn.Linear(8 * 8 * 32, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 10) of images (B, 3, 32, 32)."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def train(model: nn.Module, batches: Iterable[Batch]) -> None:
    """Local training of one client."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for images, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()


def average(server: nn.Module, trained: list[dict[str, Tensor]]) -> None:
    """Set the server's model to the mean of the clients', i.e. move it by the mean update."""
    server.load_state_dict(
        {name: torch.stack([state[name] for state in trained]).mean(0) for name in trained[0]}
    )


def cropped_batches(images: Tensor, labels: Tensor) -> Iterator[Batch]:
    """The local steps of a client: shuffled epochs, each batch cropped at one random offset."""
    side = images.shape[-1]
    epochs = itertools.chain.from_iterable(
        torch.randperm(len(images)).split(BATCH) for _ in itertools.count()
    )
    for indices in itertools.islice(epochs, LOCAL_STEPS):
        top, left = torch.randint(0, 2 * PADDING + 1, (2,)).tolist()
        padded = F.pad(images[indices], (PADDING,) * 4)
        yield padded[:, :, top : top + side, left : left + side], labels[indices]


class ClientImages(Dataset[tuple[Tensor, int]]):
    """The images of one client, as torchvision's own data sets hold theirs: an array, PIL on access."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64]):
        from torchvision import transforms

        self.images, self.labels = images, labels
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(32, padding=PADDING),
                transforms.ToTensor(),
                transforms.Normalize(workload.MEAN, workload.STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def usual(clock: workload.Clock) -> None:
    """Run the loop that people write, until the clock says stop."""
    images, labels = (
        array.reshape(-1, IMAGES, *array.shape[1:]) for array in (workload.images(), workload.labels())
    )
    loaders = [
        DataLoader(ClientImages(*client), BATCH, shuffle=True) for client in zip(images, labels, strict=True)
    ]
    server = Net()
    for cohort in workload.cohorts():
        trained = []
        for client in cohort:
            model = copy.deepcopy(server)
            epochs = itertools.chain.from_iterable(itertools.repeat(loaders[client]))
            train(model, itertools.islice(epochs, LOCAL_STEPS))
            trained.append(model.state_dict())
        average(server, trained)
        if clock.tick():
            break
    settings = {
        "crop": "torchvision RandomCrop, one offset an image",
        "allocator": "default",
        "layout": "NCHW",
        "data": "PIL images, torchvision transforms, DataLoader in the same process",
    }
    clock.report(torch.get_num_threads(), settings, ["torchvision", "pillow"])


def best(clock: workload.Clock) -> None:
    """Run the same loop with the best settings, until the clock says stop."""
    allocator = workload.tune_allocator()
    torch.set_num_threads(1)
    images, labels = workload.normalised()
    server, model = Net(), Net()
    for cohort in workload.cohorts():
        trained = []
        for client in cohort.tolist():
            model.load_state_dict(server.state_dict())
            train(model, cropped_batches(images[client], labels[client]))
            trained.append(copy.deepcopy(model.state_dict()))
        average(server, trained)
        if clock.tick():
            break
    settings = {
        "crop": "one offset a batch",
        "allocator": allocator,
        "layout": "NCHW",
        "data": "normalised float32 tensors in memory",
    }
    clock.report(torch.get_num_threads(), settings)


def main() -> None:
    """Run one variant."""
    parser = workload.arguments()
    parser.add_argument("--variant", choices=["usual", "best"], required=True)
    options = parser.parse_args()
    {"usual": usual, "best": best}[options.variant](workload.Clock(options))


if __name__ == "__main__":
    main()
