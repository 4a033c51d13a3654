"""Single-precision matrix products of 4096 x 4096 on one thread: what a core can do at most."""

import torch

from benchmarks import workload

SIDE = 4096


def main() -> None:
    """Multiply until the clock says stop."""
    clock = workload.Clock(workload.arguments().parse_args(), unit="flop", per_round=2 * SIDE**3)
    torch.set_num_threads(1)
    left, right = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    while True:
        torch.mm(left, right, out=out)
        if clock.tick():
            break
    clock.report(torch.get_num_threads(), {"side": SIDE})


if __name__ == "__main__":
    main()
