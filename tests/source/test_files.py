from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.errors import Diagnostic, InputError
from shardplan.source import parse_json, parse_yaml, read_document, read_text
from shardplan.source.document import Document
from shardplan.source.files import MAX_FILE_BYTES, decode


def complaint(path: str | Path) -> Diagnostic:
    with pytest.raises(InputError) as caught:
        read_document(path)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_the_suffix_says_how_a_file_is_read(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.yml", "a.txt", "a"):
        (tmp_path / name).write_text("x: no\n")
        assert read_document(tmp_path / name).value == {"x": "no"}
    (tmp_path / "a.JSON").write_text('{"x": "\\u00e9"}')
    assert read_document(str(tmp_path / "a.JSON")).value == {"x": "é"}


def test_marks_name_the_file_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("case.yaml").write_text("x: 1\n")
    assert str(read_document("case.yaml").mark(("x",))) == "case.yaml:1:4"


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "llama3.1-70b.yaml").touch()
    found = complaint(tmp_path / "llama3-70b.yaml")
    assert (found.code, found.message) == ("SP001", "no such file")
    assert found.hint == "did you mean 'llama3.1-70b.yaml'?"
    assert complaint(tmp_path / "zzz").hint is None
    assert "no folder" in (complaint(tmp_path / "nowhere" / "a.yaml").hint or "")


def test_a_folder_that_cannot_be_listed_suggests_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "scandir", refuse)
    assert complaint(tmp_path / "a.yaml").hint is None


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000])
def test_an_impossible_name_is_the_users_fault(name: str) -> None:
    assert complaint(name).code == "SP001"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert complaint(tmp_path).message == "is a folder, not a file"
    (tmp_path / "a").touch()
    assert "Not a directory" in complaint(tmp_path / "a" / "b").message


def test_a_file_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert complaint(tmp_path / "a.yaml").message == "cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b"a: \xff", ":1:4"),
        (b"a: 1\nb: \xe9t\xe9", ":2:4"),
        ("a: 1".encode("utf-16"), ":1:1"),
        (b"\x7fELF\x02\x00\x80", ":1:7"),
    ],
)
def test_bytes_that_are_no_text_are_refused_where_they_stand(raw: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_bytes(raw)
    found = complaint(path)
    assert (found.code, str(found.mark)) == ("SP002", f"{path}{place}")


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert complaint(path).code == "SP003"
    path.write_bytes(b"a" * 20)
    assert read_text(path, max_bytes=20) == "a" * 20
    with pytest.raises(InputError, match="larger"):
        read_text(path, max_bytes=19)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.json"):
        (tmp_path / name).touch()
        assert complaint(tmp_path / name).code == "SP006"


@given(st.binary())
def test_no_bytes_make_the_readers_stumble(raw: bytes) -> None:
    for parse in (parse_yaml, parse_json):
        try:
            document = parse(decode(raw, "case"), "case")
        except InputError as error:
            assert all(diagnostic.mark is not None for diagnostic in error.diagnostics)
        else:
            assert isinstance(document, Document)
