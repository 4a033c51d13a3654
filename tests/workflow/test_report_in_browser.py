"""The report in a real browser, opened as a file: it fits phone and desktop, links lead on, all is named."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.conftest import Workflow

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1280)  # CSS pixels: a phone, a desktop
MAX_BYTES = 10 * 2**20

# A frame of the wanted width around the page, which is not touched; all details are opened first, since what
# is hidden has no width. The results are left in the document for --dump-dom.
MEASURE = """<!doctype html><title>measure</title>
<iframe src="{page}" width="{width}" height="900" style="border: 0"></iframe><pre id="found"></pre><script>
document.querySelector("iframe").onload = event => {{
  const page = event.target.contentDocument, root = page.documentElement;
  for (const item of page.querySelectorAll("details")) item.open = true;
  const links = [...page.querySelectorAll("a[href]")].map(item => item.getAttribute("href"));
  const levels = [...page.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(item => Number(item.tagName[1]));
  const wide = [...page.querySelectorAll("body *")].filter(item => !item.parentElement.closest(".wide"));
  document.getElementById("found").textContent = JSON.stringify({{
    width: root.clientWidth, needed: root.scrollWidth,
    outside: wide.filter(item => item.getBoundingClientRect().right > root.clientWidth + 1)
      .map(item => item.outerHTML.slice(0, 200)),
    broken: [...page.images].filter(item => !item.complete || !item.naturalWidth).map(item => item.alt),
    images: page.images.length, details: page.querySelectorAll("details").length, links,
    lost: links.filter(link => link.startsWith("#") && !page.getElementById(link.slice(1))),
    language: root.lang, skipped: levels.filter((level, n) => level > (n ? levels[n - 1] : 0) + 1),
    unnamed: [...page.querySelectorAll("a[href], summary, button, img")]
      .filter(item => !(item.textContent.trim() || item.alt || item.ariaLabel))
      .map(item => item.outerHTML.slice(0, 200)),
    headless: [...page.querySelectorAll("table")].filter(item => !item.querySelector("th")).length,
    jumping: [...page.querySelectorAll("[tabindex]")].filter(item => item.tabIndex > 0).length,
  }});
}};
</script>
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on PATH")


def browse(page: Path, folder: Path, width: int) -> tuple[dict[str, Any], list[str]]:
    """What is measured of a page in a frame of a width, and what the browser writes to its console."""
    frame = folder / f"measure{width}.html"
    frame.write_text(MEASURE.format(page=page.as_uri(), width=width))
    options = (
        "headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", "no-first-run", "disable-sync",
        "disable-background-networking", "disable-component-update", "allow-file-access-from-files",
        "enable-logging=stderr", f"user-data-dir={folder / 'profile'}", "window-size=1400,1000",
        "virtual-time-budget=20000", "dump-dom",
    )  # fmt: skip
    command = [str(BROWSER), *(f"--{option}" for option in options), frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="found">(\{.*?\})</pre>', done.stdout, flags=re.S)
    assert found, f"nothing was measured: {done.stderr[-2000:]}"
    return json.loads(unescape(found[1])), re.findall(r".*:CONSOLE.*", done.stderr)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_fits_and_its_links_lead_somewhere(width: int, finished: Workflow, tmp_path: Path) -> None:
    page = finished.folder / "results/tiny/report/index.html"
    found, console = browse(page, tmp_path, width)
    assert console == []
    assert found["width"] == width and found["needed"] <= width, found["outside"]
    assert found["images"] == 13 + 8 + 6 and found["broken"] == []
    assert found["details"] > 100 and found["lost"] == []
    # for a keyboard and a screen reader: the page's own order, headings without gaps, a name for everything
    assert found["language"] == "en" and found["skipped"] == [] and found["unnamed"] == []
    assert found["headless"] == found["jumping"] == 0
    files = {link for link in found["links"] if not link.startswith("#")}
    assert files and all((page.parent / link).is_file() for link in files)


def test_the_measurement_sees_faults(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><a href="#absent">x</a><img src="absent.png" alt="lost">'
        '<details><p style="width: 500px">wide</p></details><script>console.error("broken")</script>'
        '<h1>a</h1><h3 tabindex="1">b</h3><img src="absent.png"><table><tr><td>1</td></tr></table>'
    )
    found, console = browse(page, tmp_path, 390)
    assert found["needed"] > found["width"] == 390 and "wide" in "".join(found["outside"])
    assert found["lost"] == ["#absent"] and found["broken"] == ["lost", ""]
    assert found["language"] == "" and found["skipped"] == [3] and len(found["unnamed"]) == 1
    assert found["headless"] == found["jumping"] == 1
    assert any("broken" in line for line in console)


def test_the_report_is_one_file_of_moderate_size(finished: Workflow) -> None:
    assert (finished.folder / "results/tiny/report/index.html").stat().st_size < MAX_BYTES
