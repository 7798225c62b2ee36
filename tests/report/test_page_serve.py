"""`clbench report --serve`: real requests to a real server, which answers loopback only."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clbench.cli.report import command
from clbench.errors import UserError
from clbench.record import Record
from clbench.report import tables
from clbench.report.page.serve import Live, Server, bind
from clbench.store import Store

Save = Callable[[list[Record]], Path]


@contextlib.contextmanager
def serving(out: Path) -> Iterator[tuple[Server, list[int]]]:
    """A server of the records in `out`, and a list that grows when they are read."""
    reads: list[int] = []

    def build() -> Any:
        reads.append(1)
        records, problems = Store(out).records()
        return tables(records, problems), records

    with bind(0, Live(out / "records", build)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, reads
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: Server, path: str = "/", host: str = "", method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_it_serves_the_page_and_its_data(grid: list[Record], save: Save) -> None:
    with serving(save(grid)) as (server, _):
        code, page, headers = ask(server)
        assert code == 200
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Cache-Control"] == "no-store"
        data = json.loads(ask(server, "/data.json")[1])
        assert len(data["benchmarks"][0]["rows"]) == 5
        assert f'"version":"{data["version"]}"' in page
        assert ask(server, method="HEAD")[:2] == (200, "")


def test_it_listens_on_loopback_only(grid: list[Record], save: Save) -> None:
    with serving(save(grid)) as (server, _):
        assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/records/x.json", "/../pyproject.toml", "/favicon.ico"])
def test_there_is_nothing_else(grid: list[Record], save: Save, path: str) -> None:
    with serving(save(grid)) as (server, _):
        assert ask(server, path)[0] == 404


@pytest.mark.parametrize("path", ["/", "/data.json"])
def test_another_host_name_is_refused(grid: list[Record], save: Save, path: str) -> None:
    with serving(save(grid)) as (server, reads):
        port = server.server_address[1]
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "0.0.0.0"):
            code, body, _ = ask(server, path, host)
            assert code == 403
            assert "ewc" not in body
        assert reads == []
        for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}"):
            assert ask(server, path, host)[0] == 200


def test_records_are_read_again_only_when_they_changed(
    grid: list[Record], record: Callable[..., Record], save: Save
) -> None:
    with serving(save(grid)) as (server, reads):
        version = json.loads(ask(server, "/data.json")[1])["version"]
        for _ in range(3):
            assert ask(server, f"/data.json?have={version}")[:2] == (204, "")
            assert ask(server)[0] == 200
        assert len(reads) == 1
        save([record("si")])
        code, body, _ = ask(server, f"/data.json?have={version}")
        assert code == 200
        assert any(row["name"] == "si" for row in json.loads(body)["benchmarks"][0]["rows"])
        assert len(reads) == 2


def test_a_folder_without_runs_waits_for_them(
    tmp_path: Path, record: Callable[..., Record], save: Save
) -> None:
    out = tmp_path / "results"
    out.mkdir()
    with serving(out) as (server, _):
        assert json.loads(ask(server, "/data.json")[1])["benchmarks"] == []
        save([record("ewc")])
        assert len(json.loads(ask(server, "/data.json")[1])["benchmarks"]) == 1


def test_a_port_in_use_is_a_sentence(grid: list[Record], save: Save) -> None:
    out = save(grid)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(UserError, match=rf"Port {port} on 127.0.0.1 .* --port N"):
            report("--out", out, "--serve", "--port", port)


def report(*words: Any) -> None:
    CliRunner().invoke(
        command, [str(word) for word in words], catch_exceptions=False, standalone_mode=False
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--serve", "--format", "html"], "--serve writes no files"),
        (["--serve", "--to", "x"], "--serve writes no files"),
        (["--port", "8000"], "--port 8000 needs --serve"),
        (["--serve", "--methods", "agen"], "Did you mean 'agem'"),
    ],
)
def test_options_that_do_not_go_together(
    grid: list[Record], save: Save, words: list[str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        report("--out", save(grid), *words)


def test_a_folder_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        report("--out", tmp_path / "nowhere", "--serve")


def test_the_command_says_where_and_ends_with_ctrl_c(grid: list[Record], save: Save) -> None:
    out = save(grid)
    program = "from clbench.cli import main; main()"
    words = ["report", "--serve", "--port", "0", "--out", str(out), "--methods", "ewc"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/data.json")
        rows = json.loads(connection.getresponse().read())["benchmarks"][0]["rows"]
        assert [row["name"] for row in rows] == ["ewc[strength=500]"]
        connection.close()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Stopped." in said
    assert not (out / "tables").exists()


def test_a_report_without_serve_imports_no_server(grid: list[Record], save: Save) -> None:
    program = (
        "import sys\nfrom clbench.cli import cli\n"
        "cli(['report', '--format', 'md', '--out', sys.argv[1]], standalone_mode=False)\n"
        "print(sorted({'http.server', 'clbench.report.page'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(save(grid))], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
