"""JSON lines, as others read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import read_vectors

from elmokit.errors import FormatError
from elmokit.vectors import jsonl as vectors_jsonl
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import VectorSettings
from elmokit.vectors.jsonl import write_jsonl


def test_jsonl_has_an_object_for_each_line(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "out.jsonl", [(["a", "b"], np.array([[0.1, 1], [-2e-9, 3e20]]))])

    line = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert line == (
        '{"index": 0, "sentence": "a b", "shape": [2, 2], '
        '"vectors": [[0.1, 1.0], [-2e-09, 3e+20]]}\n'
    )
    assert json.loads(line)["vectors"] == [[0.1, 1.0], [-2e-09, 3e20]]


def test_half_precision_needs_fewer_digits(tmp_path: Path) -> None:
    settings = VectorSettings(dtype="float16")
    write_jsonl(tmp_path / "out.jsonl", [("a", np.array([[0.1, 1 / 3]]), "x")], settings)

    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == (
        '{"index": 0, "id": "x", "sentence": "a", "shape": [1, 2], "dtype": "float16", '
        '"vectors": [[0.1, 0.3333]]}\n'
    )
    found = read_vectors(tmp_path / "out.jsonl")[0].vectors
    assert np.array_equal(found, np.array([[0.1, 1 / 3]], dtype=np.float16))


@pytest.mark.parametrize("end", ["\n", ""])
def test_lines_are_found_across_the_blocks_in_which_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(vectors_jsonl, "SCANNED_BYTES", 13)
    path = tmp_path / "out.jsonl"
    write_jsonl(path, ((f"line {n}", np.full((1, 1), n)) for n in range(9)))
    path.write_text(path.read_text().removesuffix("\n") + end)  # the last line needs no end

    assert [item.vectors[0, 0] for item in read_vectors(path)] == list(range(9))


def test_lines_of_others_may_be_laid_out_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"vectors":[[1,2]],"shape":[1,2],"sentence":"\\"sentence\\": \\"b\\", 강"}\r\n',
        encoding="utf-8",
    )

    with open_vectors(path) as file:
        assert list(file.sentences()) == [(0, '"sentence": "b", 강')]
        assert np.array_equal(file[0].vectors, [[1, 2]])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        '{"vectors": [[1, 2]], "sentence": "a"}',
        '{"vectors": [[1, 2]], "sentence": "a", "shape": [3]}',
        '{"vectors": [[1, 2], [3]], "sentence": "a", "shape": [3]}',
        '{"vectors": [["a"]], "sentence": "a", "shape": [1, 1]}',
        '{"vectors": [[{}]], "sentence": "a", "shape": [1, 1]}',
        '{"vectors": [[1]], "sentence": "a", "shape": "a"}',
        '{"vectors": [[1]], "sentence": "a", "shape": [1, 1], "dtype": "no"}',
        "[" * 100_000,
    ],
)
def test_line_of_something_else_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "in.jsonl"
    write_jsonl(path, [("a", np.ones((1, 2)))])
    path.write_text(f"{path.read_text()}{line}\n")

    with open_vectors(path) as file:
        assert len(file) == 2
        assert file[0].sentence == "a"
        with pytest.raises(FormatError, match=r"in\.jsonl, line 2: "):
            file[1]


@pytest.mark.parametrize("number", ["NaN", "1e300", "Infinity"])
def test_number_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"sentence": "a", "shape": [1, 1], "vectors": [[{number}]]}}\n')

    with pytest.raises(FormatError, match="NaN or infinite"):
        read_vectors(path)


def test_first_line_describes_all(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    items = [('say ", "description": {}', np.ones((1, 2)), "x"), ("b", np.ones((1, 2)), "y")]
    write_jsonl(path, items, VectorSettings(description={"layers": "all", "pool": "mean"}))

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["description"] == {"layers": "all", "pool": "mean"}
    assert "description" not in lines[1]
    with open_vectors(path) as file:
        assert file.description == {"layers": "all", "pool": "mean"}
        assert [item.sentence for item in file] == ['say ", "description": {}', "b"]


@pytest.mark.parametrize("sentence", ['", "description": {"layers": "top"}, "vectors": ', "a"])
def test_file_that_is_not_described_has_no_description(tmp_path: Path, sentence: str) -> None:
    path = tmp_path / "out.jsonl"
    write_jsonl(path, [(sentence, np.ones((1, 2)))])

    with open_vectors(path) as file:
        assert file.description == {}
        assert file[0].sentence == sentence


@pytest.mark.parametrize("description", ["[1, 2]", "{", '"text"', "7"])
def test_damaged_description_is_told(tmp_path: Path, description: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(
        f'{{"sentence": "a", "shape": [1], "description": {description}, "vectors": [1]}}\n'
    )

    with pytest.raises(FormatError, match=r"in\.jsonl, line 1: "):
        open_vectors(path)


def test_json_lines_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    path.write_text('{"text": "a bank", "id": 1}\n{"sentence": "b", "vectors": [1]}\n')

    with pytest.raises(
        FormatError, match=r"is not a file of vectors: its first line has no .shape"
    ):
        open_vectors(path)
