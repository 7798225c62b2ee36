"""The page on loopback, redrawn when records change: `clbench report --serve`."""

import contextlib
import hashlib
import os
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clbench.errors import UserError
from clbench.record import Record
from clbench.report.page import document, embed
from clbench.report.page.data import content
from clbench.report.table import Table

ADDRESS = "127.0.0.1"
PORT = 8765
_LOOPBACK = ("127.0.0.1", "localhost")
Build = Callable[[], tuple[list[Table], Iterable[Record]]]
"""Reads the records as they are now."""


class Live:
    """The page's data in its latest state; records are only read again when a file has changed."""

    def __init__(self, folder: Path, build: Build) -> None:
        self._folder = folder
        self._build = build
        self._lock = threading.Lock()
        self._version = ""
        self._data = ""

    def version(self) -> str:
        """A hash of the state of the folder: names, sizes and times of its files."""
        state = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:  # no folder is no run yet
                if entry.name.endswith(".json"):
                    with contextlib.suppress(OSError):  # gone while we look, or a link to nothing
                        found = entry.stat()
                        state.append((entry.name, found.st_size, found.st_mtime_ns))
        return hashlib.sha256(repr(sorted(state)).encode()).hexdigest()[:16]

    def data(self) -> str:
        """The JSON of the page; a change while it is made is seen by the next call."""
        with self._lock:
            version = self.version()
            if version != self._version:
                tables, records = self._build()
                self._data = embed(content(tables, records, version))
                self._version = version
            return self._data


class Server(socketserver.ThreadingTCPServer):
    """Answers on this machine only; unlike http.server's own, it looks up no host name."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, live: Live) -> None:
        self.live = live
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a browser that goes away in the middle of an answer, and reports all else."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 30

    def do_GET(self) -> None:
        host = self.headers.get("Host", "")
        if host.rpartition(":")[0] not in _LOOPBACK and host not in _LOOPBACK:
            # a foreign name that resolves to this machine: its scripts must not read the records
            self._answer(403, "text/plain", f"This server answers to {self.server.url} only.\n")
            return
        address = urlsplit(self.path)
        live = self.server.live
        if address.path == "/":
            self._answer(200, "text/html", document(live.data(), served=True))
        elif address.path == "/data.json":
            if parse_qs(address.query).get("have") == [live.version()]:
                self._answer(204, "", "")
            else:
                self._answer(200, "application/json", live.data())
        else:
            self._answer(404, "text/plain", f"There is only one page here: {self.server.url}\n")

    do_HEAD = do_GET

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a page that asks every two seconds would fill the terminal."""


def bind(port: int, live: Live) -> Server:
    """A server that holds its port; a UserError if the port is not available."""
    try:
        return Server(port, live)
    except OSError as error:
        raise UserError(
            f"Port {port} on {ADDRESS} is not available: {error.strerror or error}. "
            "Name another with --port N, or --port 0 for any that is free."
        ) from None
