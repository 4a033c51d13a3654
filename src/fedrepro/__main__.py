"""``python -m fedrepro``: the command every rule of the workflow runs."""

import sys

from fedrepro import forks


def main() -> int:
    """Have the command run by a fork of a prepared process, where there is one, or run it here."""
    status = forks.run(sys.argv[1:])
    if status is None:
        from fedrepro.cli import main as run_here

        return run_here()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
