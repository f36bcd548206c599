from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from elmokit.errors import DiskError
from elmokit.jobs.parts import FirstComputed, Seen


def test_sentences_are_found_where_they_were_first(tmp_path: Path) -> None:
    seen = Seen(tmp_path, 0)
    seen.add([("a b", FirstComputed(0, 0)), ("c", FirstComputed(0, 2))])
    seen.add([("a b", FirstComputed(1, 5)), ("d", FirstComputed(1, 7))])
    assert seen.find(["a b", "d", "e", "a b"]) == {
        "a b": FirstComputed(0, 0),
        "d": FirstComputed(1, 7),
    }
    seen.close()


def test_what_was_not_finished_is_forgotten(tmp_path: Path) -> None:
    seen = Seen(tmp_path, 0)
    seen.add([("a", FirstComputed(0, 0))])
    seen.add([("b", FirstComputed(1, 0))])
    seen.close()
    again = Seen(tmp_path, 1)
    assert again.find(["a", "b"]) == {"a": FirstComputed(0, 0)}
    again.close()


def test_many_sentences_are_asked_for_at_once(tmp_path: Path) -> None:
    seen = Seen(tmp_path, 0)
    sentences = [f"sentence {number}" for number in range(1501)]
    seen.add((sentence, FirstComputed(0, place)) for place, sentence in enumerate(sentences))
    assert sorted(place.start for place in seen.find(sentences).values()) == list(range(1501))
    assert len(seen.find([*sentences, "another"])) == 1501
    seen.close()


def test_lone_surrogates_are_sentences_too(tmp_path: Path) -> None:
    seen = Seen(tmp_path, 0)
    seen.add([("\ud800", FirstComputed(0, 0))])
    assert seen.find(["\ud800", "\ud801"]) == {"\ud800": FirstComputed(0, 0)}
    seen.close()


def test_an_index_that_cannot_be_used_is_one_line_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentences.sqlite").write_bytes(b"no database" * 100)
    index = sqlite3.connect(tmp_path / "sentences.sqlite")
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **named: index)
    with pytest.raises(DiskError, match=r"sentences\.sqlite: cannot be used \(file is not a"):
        Seen(tmp_path, 0)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        index.execute("SELECT 1")
