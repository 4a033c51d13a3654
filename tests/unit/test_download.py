"""Downloading from a server on this machine: whole and right, or absent."""

import hashlib
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrepro.errors import FedreproError
from fedrepro.provenance.archives import Published, digest
from fedrepro.runtime.download import Patience, download
from fedrepro.runtime.sources import sources
from tests.archives import Host, serve
from tests.helpers import python

DATA = bytes(range(256)) * 40  # 10,240 bytes
MD5 = f"md5:{hashlib.md5(DATA).hexdigest()}"
FILE = Published(len(DATA), MD5)
QUICK = Patience(timeout=0.5, rounds=3, pause=0.01)


@pytest.fixture
def host() -> Iterator[Host]:
    with serve() as made:
        made.files["/file"] = DATA
        yield made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "raw" / "file"


def get(target: Path, *urls: str, published: Published = FILE) -> None:
    download(target, published, urls, QUICK)


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_a_file_arrives_whole_and_read_only(host: Host, target: Path) -> None:
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA
    assert target.stat().st_mode & 0o777 == 0o444
    assert left(target) == ["file"]
    assert host.asked == [("/file", None)]


def test_what_is_there_is_not_asked_for(host: Host, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(DATA)
    get(target, f"{host.url}/file")
    assert host.asked == []


def test_the_digest_is_that_of_the_file(host: Host, target: Path) -> None:
    found = download(target, FILE, [f"{host.url}/file"], QUICK)
    assert found.sidecar() == {"bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    assert digest(target, MD5).sidecar() == found.sidecar()


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_both_kinds_of_checksum(host: Host, target: Path, kind: str) -> None:
    right = f"{kind}:{hashlib.new(kind, DATA).hexdigest()}"
    get(target, f"{host.url}/file", published=Published(len(DATA), right))
    with pytest.raises(FedreproError, match=f"not the published one, {kind}:"):
        wrong = f"{kind}:{hashlib.new(kind, b'').hexdigest()}"
        get(target.with_name("other"), f"{host.url}/file", published=Published(len(DATA), wrong))


def test_an_unknown_checksum_leaves_the_size(host: Host, target: Path) -> None:
    get(target, f"{host.url}/file", published=Published(len(DATA), "unknown"))
    with pytest.raises(FedreproError, match="offers 10,240 bytes instead of 10,241"):
        get(
            target.with_name("other"),
            f"{host.url}/file",
            published=Published(len(DATA) + 1, "unknown"),
        )


def test_a_broken_off_transfer_goes_on_where_it_stopped(host: Host, target: Path) -> None:
    """Each connection brings 1,000 bytes: 11 are needed, more than rounds without progress are allowed."""
    host.moods["/file"] = "cut"
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA
    assert [wanted for _, wanted in host.asked] == [None, *(f"bytes={n * 1000}-" for n in range(1, 11))]


def test_after_a_kill_it_goes_on_where_it_stopped(host: Host, target: Path) -> None:
    host.moods["/file"], host.piece = "slow", 100
    part = target.with_name("file.part")
    run = multiprocessing.get_context("spawn").Process(target=get, args=(target, f"{host.url}/file"))
    run.start()
    while not (part.exists() and part.stat().st_size):
        time.sleep(0.01)
    run.kill()
    run.join()
    assert left(target) == ["file.part"]
    begun = part.stat().st_size
    assert 0 < begun < len(DATA)
    host.asked.clear()
    host.moods.clear()
    get(target, f"{host.url}/file")
    assert host.asked == [("/file", f"bytes={begun}-")]
    assert target.read_bytes() == DATA and left(target) == ["file"]


def test_a_server_without_ranges_starts_again(host: Host, target: Path) -> None:
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(b"x" * 500)
    host.moods["/file"] = "rangeless"
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA


def test_a_slow_server_is_waited_for(host: Host, target: Path) -> None:
    """1 s in all, twice what a silence may take here."""
    host.moods["/file"], host.piece = "slow", 100
    download(target, FILE, [f"{host.url}/file"], Patience(timeout=0.5, rounds=1, pause=0.01))
    assert target.read_bytes() == DATA and len(host.asked) == 1


def test_a_silent_server_is_left_for_the_next(host: Host, target: Path) -> None:
    host.files["/silent"] = DATA
    host.moods["/silent"] = "stall"
    host.piece = 0
    started = time.monotonic()
    get(target, f"{host.url}/silent", f"{host.url}/file")
    assert target.read_bytes() == DATA and time.monotonic() - started < 5


@pytest.mark.parametrize("mood", ["404", "403", "html", "503", "500"])
def test_a_source_without_the_file_is_left_for_the_next(host: Host, target: Path, mood: str) -> None:
    host.files["/first"] = DATA
    host.moods["/first"] = mood
    get(target, f"{host.url}/first", f"{host.url}/file")
    assert target.read_bytes() == DATA
    assert [path for path, _ in host.asked] == ["/first", "/file"]


def test_a_mirror_goes_on_where_another_stopped(host: Host, target: Path) -> None:
    host.files["/first"] = DATA
    host.moods["/first"] = "cut"
    get(target, f"{host.url}/first", f"{host.url}/file")
    assert host.asked == [("/first", None), ("/file", "bytes=1000-")]
    assert target.read_bytes() == DATA


def test_a_mirror_with_other_content_is_never_used(host: Host, target: Path) -> None:
    host.files["/wrong"] = b"x" * len(DATA)
    get(target, f"{host.url}/wrong", f"{host.url}/file")
    assert target.read_bytes() == DATA
    host.asked.clear()
    other = target.with_name("other")
    with pytest.raises(FedreproError, match=f"its file is not the published one, md5:.* instead of {MD5}"):
        get(other, f"{host.url}/wrong")
    assert len(host.asked) == 1, "asking again is no use"
    assert not other.exists()


@pytest.mark.parametrize("size", [500, 10_240, 20_000])
def test_a_wrong_part_is_thrown_away(host: Host, target: Path, size: int) -> None:
    """Shorter than the file, as long, or longer."""
    target.parent.mkdir()
    target.with_name("file.part").write_bytes(b"x" * size)
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA and left(target) == ["file"]


@pytest.mark.parametrize("content", [DATA[:3000], b"x" * 3000, b"x" * 10_240, b""])
def test_a_damaged_file_in_place_is_replaced(
    host: Host, target: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    target.parent.mkdir()
    target.write_bytes(content)
    target.chmod(0o444)
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA and left(target) == ["file"]
    assert f"{target} is not the published file" in capsys.readouterr().out
    if DATA.startswith(content) and content:
        assert host.asked == [("/file", "bytes=3000-")], "a truncated one is completed"


def test_a_damaged_file_is_not_left_in_place_without_a_network(target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"x" * len(DATA))
    with pytest.raises(FedreproError):
        get(target, "http://127.0.0.1:9/file")
    assert not target.exists()


def test_without_a_network_the_message_says_what_to_do(target: Path) -> None:
    started = time.monotonic()
    with pytest.raises(FedreproError) as caught:
        get(target, "http://127.0.0.1:9/file", "http://no-such-host.invalid/file", "nonsense")
    said = str(caught.value)
    assert time.monotonic() - started < 10
    assert "http://127.0.0.1:9/file: Connection refused" in said
    assert "no-such-host.invalid/file: " in said and "nonsense: unknown url type" in said
    for words in (str(target), "10,240 bytes", MD5, "raw/file", "FEDREPRO_DATA", "FEDREPRO_MIRROR"):
        assert words in said


def test_a_full_disk_keeps_what_arrived(host: Host, target: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    code = """
import resource, sys
from pathlib import Path
from fedrepro.errors import FedreproError
from fedrepro.provenance.archives import Published
from fedrepro.runtime.download import download
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    download(Path(sys.argv[1]), Published(10240, sys.argv[2]), [sys.argv[3]])
except FedreproError as error:
    print(error)
"""
    said = python(code, target, MD5, f"{host.url}/file")
    assert f"cannot write {target}: File too large" in said and "goes on where it stopped" in said
    assert left(target) == ["file.part"]
    get(target, f"{host.url}/file")
    assert target.read_bytes() == DATA


def test_a_file_in_place_of_the_folder(host: Host, tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("not a folder")
    with pytest.raises(FedreproError, match=r"cannot write .*raw/file"):
        get(tmp_path / "raw" / "file", f"{host.url}/file")


def test_two_processes_at_once_download_once(host: Host, target: Path) -> None:
    host.moods["/file"] = "slow"
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=get, args=(target, f"{host.url}/file")) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
        assert run.exitcode == 0
    assert target.read_bytes() == DATA and left(target) == ["file"]
    assert host.asked == [("/file", None)]


def test_progress_is_a_line_where_there_is_no_terminal(
    host: Host, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the meter runs 7 s at every look, so that every second piece is a line."""
    clock = iter(range(0, 10**6, 7))
    monkeypatch.setattr("fedrepro.runtime.meter.time.monotonic", lambda: float(next(clock)))
    host.moods["/file"] = "cut"
    get(target, f"{host.url}/file")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "download file: 20%, 14 s" and 4 <= len(lines) <= 6


URLS = ["http://a/x", "http://b/x"]


def test_sources_of_a_site_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FEDREPRO_DATA", "FEDREPRO_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    assert sources("mnist", "x", URLS) == URLS
    monkeypatch.setenv("FEDREPRO_MIRROR", "https://mirror/data/")
    assert sources("mnist", "x", URLS) == ["https://mirror/data/mnist/x", *URLS]
    monkeypatch.setenv("FEDREPRO_DATA", str(tmp_path))
    assert sources("mnist", "x", URLS) == ["https://mirror/data/mnist/x", *URLS], "it is not there"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "x").write_bytes(b"1")
    assert sources("mnist", "x", URLS)[0] == f"file://{tmp_path}/mnist/x"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("FEDREPRO_DATA", "/no/such/folder", "which is no folder; it must hold"),
        ("FEDREPRO_MIRROR", "mirror.example", "allowed is a URL that begins with http"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(FedreproError, match=f"{name} is '{value}'.*{words}"):
        sources("mnist", "x", URLS)


def test_a_folder_of_the_site_is_copied_and_checked(target: Path, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(DATA)
    (tmp_path / "bad").write_bytes(b"x" * len(DATA))
    get(target, (tmp_path / "bad").as_uri(), (tmp_path / "good").as_uri())
    assert target.read_bytes() == DATA
    target.chmod(0o644)
    assert (tmp_path / "good").stat().st_nlink == 1
