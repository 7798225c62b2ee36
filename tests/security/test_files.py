"""Files from outside are read bounded, and writing stays below its folder."""

import errno
import os
from pathlib import Path

import pytest

from clbench.errors import UserError
from clbench.files import DOTS, TOML, read_bounded, read_text, read_toml, write_atomically


def fails_with(number, function, *args):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        function(*args)
    assert caught.value.errno == number
    return str(caught.value.strerror)


def test_a_file_up_to_the_limit_is_read_and_a_larger_one_is_not(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    assert "5 bytes" in fails_with(errno.EFBIG, read_bounded, path, 4)


def test_a_huge_sparse_file_is_refused_without_reading_it(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(2**40)
    fails_with(errno.EFBIG, read_bounded, tmp_path / "a", 1000)


def test_a_file_whose_size_is_said_to_be_0_is_bounded_too():
    fails_with(errno.EFBIG, read_bounded, Path("/proc/self/maps"), 100)


def test_no_pipe_device_or_folder_is_read_or_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "fifo", tmp_path / "link", tmp_path):
        assert "regular file" in fails_with(errno.EINVAL, read_bounded, path, 1000)


def test_text_is_utf_8_and_a_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("\ufeffé".encode())
    assert read_text(path, 10) == "é"
    path.write_bytes("é".encode("utf-16"))
    with pytest.raises(UserError, match="UTF-8"):
        read_text(path, 10)


@pytest.mark.parametrize(
    "content",
    [
        b"a = " + b"[" * 5000,
        b"a = " + b"9" * 5000,
        b"a\x00b = 1",
        b"\xff\xfea = 1",
        b".".join([b"a"] * 400_000) + b" = 1",
        b"." * (DOTS + 1),
        b"#" * (TOML + 1),
    ],
    ids=["nested", "integer", "nul", "utf-16", "long key", "dots", "large"],
)
def test_bad_toml_is_a_sentence_and_takes_no_time(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"^the study\b"):
        read_toml(path, "the study")


def test_toml_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes("\ufeffa = 1".encode())
    assert read_toml(path, "it") == {"a": 1}


def test_a_path_that_cannot_be_is_a_sentence():
    for name in ("a\x00b", "a" * 300, "no such file"):
        with pytest.raises(UserError):
            read_toml(Path(name), "it")


def test_nothing_is_written_through_a_link_below_the_root(tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    root.mkdir()
    (root / "tables").symlink_to(elsewhere)
    for path in (root / "tables/a", root / "tables/deep/a"):
        assert "link" in fails_with(errno.ELOOP, write_atomically, path, b"1", root)
    assert [p.name for p in elsewhere.iterdir()] == ["deep"]


def test_nothing_is_written_beside_the_root(tmp_path):
    (tmp_path / "root").mkdir()
    for path in (tmp_path / "a", tmp_path / "root/../a", Path("/a")):
        fails_with(errno.EINVAL, write_atomically, path, b"1", tmp_path / "root")
    assert not (tmp_path / "a").exists()


def test_a_root_that_is_a_link_is_written_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    write_atomically(tmp_path / "root/a", b"1", tmp_path / "root")
    assert (tmp_path / "real/a").read_bytes() == b"1"


def test_a_link_in_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "a").symlink_to("victim")
    write_atomically(tmp_path / "a", b"new", tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert (tmp_path / "a").read_bytes() == b"new"
