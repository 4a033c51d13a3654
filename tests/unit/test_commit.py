"""The commit that a report names."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fedrepro.outputs.report import commit


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
def test_a_commit_and_changes_since(tmp_path: Path) -> None:
    """Also in a folder of a checkout: only a workflow that is one itself has a commit."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    file = tmp_path / "inside" / "file"
    file.parent.mkdir()
    file.write_text("one")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "one"], check=True)
    said = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert commit(tmp_path) == said[:12]
    file.write_text("two")
    assert commit(tmp_path) == f"{said[:12]}-dirty"
    assert commit(file.parent) == ""
