"""``python -m fedrepro``: the command every rule of the workflow runs."""

from fedrepro.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
