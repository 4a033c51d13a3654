"""Run ``snakemake --lint`` and fail on any finding but one.

The one: a conda environment per rule. The project has a single pinned environment, in which Snakemake itself
runs (``envs/README.md``).
"""

import re
import subprocess
import sys

ACCEPTED = "Specify a conda environment or container for each rule."


def main() -> int:
    """Print what is left of the linter's findings."""
    lint = [sys.executable, "-m", "snakemake", "--lint"]
    found = subprocess.run(lint, capture_output=True, text=True, check=False)
    titles = re.findall(r"^    \* (.*?):?$", found.stdout + found.stderr, flags=re.M)
    if ACCEPTED not in titles:
        print(found.stdout, found.stderr, sep="\n")
        print("snakemake --lint did not run as expected")
        return 1
    left = [title for title in titles if title != ACCEPTED]
    print("\n".join(left) or "snakemake --lint: nothing to mend")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
