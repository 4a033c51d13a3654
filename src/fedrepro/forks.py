"""Jobs of one Snakemake run as forks of a process that has imported their libraries.

Importing PyTorch takes longer than a small training cell. Where Snakemake runs jobs on its own machine, the
first job of a family starts a server: a process that imports the family's third-party libraries, and none
of fedrepro, then forks for every job. A job's own process stays its proxy: it hands over its arguments,
environment and standard streams, forwards signals, and ends with the job's exit status. A server ends with
the run that it belongs to, and its jobs with it; a job whose proxy is gone is terminated. Without a server
(Linux has what it takes) a job imports for itself, so no result depends on there being one.
"""

import contextlib
import importlib
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

RUN = "FEDREPRO_RUN"  # environment variable: "<pid of Snakemake> <secret of the run>"
_TABLES = ("numpy", "pyarrow.parquet", "pandas")  # PyArrow imports pandas as soon as it makes an array
LIBRARIES = {
    "light": (*_TABLES, "scipy.optimize"),
    "scalar": (*_TABLES, "scipy.optimize", "numba"),
    "train": (*_TABLES, "torch", "numba"),
    "outputs": (*_TABLES, "matplotlib.figure", "matplotlib.backends.backend_agg", "seaborn"),
}
FAMILIES = {
    "run scalar": "scalar",
    "run train": "train",
    "run analysis": "train",  # some look at the algorithms' own code, which uses PyTorch
    "figure": "outputs",
    "table": "outputs",
}
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
START_SECONDS = 5.0  # until a new server listens; it imports afterwards
GRACE_SECONDS = 10.0  # for jobs to save their state when the run is gone
_LENGTH = struct.Struct("!Q")
_STATUS = struct.Struct("!i")


def announce() -> str:
    """Value of ``FEDREPRO_RUN`` for the jobs of this process, a Snakemake that runs jobs itself."""
    return f"{os.getpid()} {secrets.token_hex(16)}"


def family(arguments: Sequence[str]) -> str:
    """Which libraries a command needs."""
    return FAMILIES.get(arguments[0]) or FAMILIES.get(" ".join(arguments[:2]), "light")


def run(arguments: Sequence[str]) -> int | None:
    """Have a command run by a server of this Snakemake run.

    Returns
    -------
    int or None
        Its exit status; None if there is no server, so that the caller must run it.
    """
    announced = os.environ.pop(RUN, "")
    if not announced or not arguments or not hasattr(os, "pidfd_open"):
        return None
    with socket.socket(socket.AF_UNIX) as server:
        return _ask(server, arguments) if _connect(server, announced, family(arguments)) else None


def _connect(server: socket.socket, announced: str, libraries: str) -> bool:
    """Reach the server of a family, and start it if there is none."""
    address = _address(announced, libraries)
    deadline = 0.0
    while True:
        try:
            server.connect(address)
        except ConnectionRefusedError:
            if not deadline:
                deadline = time.monotonic() + START_SECONDS
                _start(announced, libraries)
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return _same_user(server)


def _address(announced: str, libraries: str) -> str:
    """An abstract socket: no file, gone with its server, and not to be guessed."""
    return f"\0fedrepro {announced} {libraries}"


def _start(announced: str, libraries: str) -> None:
    subprocess.Popen(
        [sys.executable, "-m", __name__, announced, libraries],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _same_user(peer: socket.socket) -> bool:
    credentials = struct.Struct("3i")
    packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return bool(credentials.unpack(packed)[1] == os.getuid())


def _ask(server: socket.socket, arguments: Sequence[str]) -> int | None:
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    payload = json.dumps(request).encode()
    try:
        socket.send_fds(server, [_LENGTH.pack(len(payload))], [0, 1, 2])
        server.sendall(payload)
        for number in FORWARDED:
            signal.signal(number, lambda signum, _: server.sendall(bytes([signum])))
        taken = server.recv(1)
    except ConnectionError:
        taken = b""
    if not taken:  # it could not import a library, and the job will say so better
        for number in FORWARDED:
            signal.signal(number, signal.SIG_DFL)
        return None
    answer = server.recv(_STATUS.size, socket.MSG_WAITALL)
    if len(answer) < _STATUS.size:
        print("error: the process that ran this job is gone; run snakemake again", file=sys.stderr)
        return 1
    status: int = _STATUS.unpack(answer)[0]
    return status if status >= 0 else 128 - status


class _Request(NamedTuple):
    proxy: socket.socket
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


def serve(announced: str, libraries: str) -> None:
    """Fork for every job of a run until the run is over."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_address(announced, libraries))
        except OSError:  # another server was first
            return
        listener.listen(128)
        run = os.pidfd_open(int(announced.split()[0]))
        for name in LIBRARIES[libraries]:
            importlib.import_module(name)
        _Server(listener, run).loop()


class _Server:
    """The loop: one selector over the run, the listener, and each job and its proxy."""

    def __init__(self, listener: socket.socket, run: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener, self._run = listener, run
        self._jobs: dict[int, tuple[int, socket.socket]] = {}  # job's pidfd: its pid and proxy
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(run, selectors.EVENT_READ, None)

    def loop(self) -> None:
        """Until the run is gone; then its jobs are told to end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._run:
                    return self._end()
                key.data()

    def _accept(self) -> None:
        proxy, _ = self._listener.accept()
        try:
            request = self._read(proxy)
        except (OSError, ValueError):
            proxy.close()
            return
        pid = os.fork()
        if not pid:
            self._selector.close()
            for inherited in (self._listener, *(other for _, other in self._jobs.values())):
                inherited.close()
            _work(request)
        for stream in request.streams:
            os.close(stream)
        job = os.pidfd_open(pid)
        self._jobs[job] = pid, proxy
        self._selector.register(job, selectors.EVENT_READ, lambda: self._finish(job))
        self._selector.register(proxy, selectors.EVENT_READ, lambda: self._hear(job))
        with contextlib.suppress(ConnectionError):
            proxy.sendall(b"\0")

    @staticmethod
    def _read(proxy: socket.socket) -> _Request:
        proxy.settimeout(START_SECONDS)
        if not _same_user(proxy):
            raise ValueError("another user")
        head, streams, _, _ = socket.recv_fds(proxy, _LENGTH.size, 3)
        try:
            size = _LENGTH.unpack(head)[0]
            payload = bytearray()
            while len(payload) < size and (part := proxy.recv(size - len(payload))):
                payload += part
            content = json.loads(payload)
        except (OSError, ValueError, struct.error):
            for stream in streams:
                os.close(stream)
            raise ValueError("a broken request") from None
        proxy.settimeout(None)
        return _Request(proxy, **content, streams=streams)

    def _hear(self, job: int) -> None:
        """Signals of a proxy; its end ends the job."""
        if job not in self._jobs:  # it has ended in the same breath
            return
        pid, proxy = self._jobs[job]
        try:
            numbers = proxy.recv(16)
        except ConnectionError:
            numbers = b""
        if not numbers:
            self._forget(proxy)
        for number in numbers or [signal.SIGTERM]:
            os.kill(pid, number)

    def _finish(self, job: int) -> None:
        pid, proxy = self._jobs.pop(job)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._selector.unregister(job)
        os.close(job)
        self._forget(proxy)
        with contextlib.suppress(ConnectionError):
            proxy.sendall(_STATUS.pack(status))
        proxy.close()

    def _forget(self, proxy: Any) -> None:
        """Listen to a proxy no more; it may have been forgotten, and closed, before."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(proxy)

    def _end(self) -> None:
        """Let jobs save their state, then end them."""
        self._selector.unregister(self._run)
        self._selector.unregister(self._listener)
        for pid, _ in self._jobs.values():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._jobs and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                if key.fileobj in self._jobs:
                    key.data()
                else:
                    self._forget(key.fileobj)  # the proxies are gone as well
        for pid, _ in self._jobs.values():
            os.kill(pid, signal.SIGKILL)


def _work(request: _Request) -> NoReturn:
    """The forked process: become the job."""
    status = 1
    try:
        request.proxy.close()
        for target, stream in enumerate(request.streams):
            os.dup2(stream, target)
            os.close(stream)
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.argv[1:] = request.arguments
        from fedrepro.cli import main

        status = int(main(request.arguments))
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(*sys.argv[1:])
