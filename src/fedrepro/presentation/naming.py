"""How algorithms, dynamics and data sets are written in every table and figure."""

NAMES = {
    "fedswe": "FedSWE",
    "fedavg_active": "FedAvg over active",
    "fedavg_all": "FedAvg over all",
    "fedavg_known": "FedAvg with known p",
    "fedau": "FedAU",
    "f3ast": "F3AST",
    "gfedavg": "gFedAvg",
    "mifa": "MIFA",
    "fedvarp": "FedVARP",
    "incentfedavg": "IncentFedAvg",
    "stationary": "Stationary",
    "staircase": "Staircase",
    "sine": "Sine",
    "interleaved_sine": "Interleaved sine",
    "uniform_sine": "Uniform sine",
    "group_windows": "Group windows",
    "cyclic": "Cyclic",
    "uniform_sampling": "Uniform sampling",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cinic10": "CINIC-10",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "mnist5k": "MNIST (5,000 digits)",
}


def display(name: str) -> str:
    """The written form of a plugin's name."""
    return NAMES.get(name, name)
