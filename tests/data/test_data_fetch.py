"""Downloads against a server on this machine that cuts, refuses and lies."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clbench.data import fetch as fetch_module
from clbench.data.fetch import fetch
from clbench.errors import UserError

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT under every name; what it does wrong is set by the test."""

    content = CONTENT
    cut = 0
    """Bytes after which each answer is cut; 0 for never."""
    cuts = 10**6
    """How many answers are cut."""
    ranges = True
    asked: list[str | None]

    def url(self, name: str = "file") -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.asked.append(asked)
        if self.path == "/missing":
            self.send_error(404)
            return
        start = int(asked[len("bytes=") : -1]) if asked and self.server.ranges else 0
        body = self.server.content[start:]
        if asked and self.server.ranges and not body:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut and self.server.cuts:
            self.server.cuts -= 1
            body = body[: self.server.cut]
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as serving:
        serving.asked = []
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_whole(server, tmp_path, capsys):
    fetch([server.url()], tmp_path / "new" / "file", MD5)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert "file: 1.0 of 1.0 MB" in capsys.readouterr().err


def test_a_cut_download_goes_on_where_it_stopped(server, tmp_path):
    server.cut = 400_000
    fetch([server.url()], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=400000-", "bytes=800000-"]
    assert not (tmp_path / "file.part").exists()


def test_a_part_of_an_earlier_process_is_used(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    fetch([server.url()], tmp_path / "file", MD5)
    assert server.asked == ["bytes=1000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_whole_part_needs_no_more_bytes(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch([server.url()], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_part_is_thrown_away(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"something else")
    fetch([server.url()], tmp_path / "file", MD5)
    assert server.asked == ["bytes=14-", None]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_cannot_resume(server, tmp_path):
    server.ranges, server.cut, server.cuts = False, 400_000, 1
    fetch([server.url()], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_cut_for_good_is_an_error_and_no_file(server, tmp_path):
    server.ranges, server.cut = False, 400_000
    with pytest.raises(UserError, match=r"cut after 400,000 of 1,024,000 bytes.*Advice"):
        fetch([server.url()], tmp_path / "file", MD5, "Advice.")
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "file.part").stat().st_size == 400_000


def test_the_next_mirror_is_tried(server, tmp_path):
    fetch([server.url("missing"), server.url()], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_checksum_is_never_kept(server, tmp_path):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(UserError, match=f"sent a file with md5 .*, not {MD5}"):
        fetch([server.url()], tmp_path / "file", MD5)
    assert list(tmp_path.glob("file*")) == []


def test_offline_names_the_address(server, tmp_path):
    url = server.url()
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match=f"Could not download file from {url} .*refused.*Place it"):
        fetch([url], tmp_path / "file", MD5, "Place it there.")


def test_a_full_disk(server, tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch_module.os, "fsync", full)
    with pytest.raises(UserError, match=r"file.part .*No space left"):
        fetch([server.url()], tmp_path / "file", MD5)
    assert not (tmp_path / "file").exists()


def test_a_server_without_end_is_left(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch_module, "LARGEST", 600_000)
    monkeypatch.setattr(fetch_module, "CHUNK", 100_000)
    with pytest.raises(UserError, match="sends more than 600,000 bytes"):
        fetch([server.url()], tmp_path / "file", MD5)
    assert list(tmp_path.iterdir()) == []
    assert len(server.asked) == 1
