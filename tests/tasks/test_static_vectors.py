"""A table of static vectors for a task's words."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

from elmokit.errors import ElmoWarning, InputError
from elmokit.static.files import save_word_vectors
from elmokit.tasks.inputs import StaticLookup

GLOVE = {"the": [1, 2], "bank": [3, 4], "Bank": [5, 6], "river": [7, 8], "money": [9, 10]}


def glove(path: Path, vectors: dict[str, list[int]] = GLOVE) -> Path:
    lines = (" ".join([word, *map(str, numbers)]) for word, numbers in vectors.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_only_the_words_that_occur_are_read_the_exact_form_before_the_lower_case(
    tmp_path: Path,
) -> None:
    words = ["the", "River", "Bank", "BANK"]
    table = StaticLookup.read(glove(tmp_path / "glove.txt"), words)
    assert table.words == ["the", "bank", "Bank", "river"]
    assert table(words).tolist() == [[1, 2], [7, 8], [5, 6], [3, 4]]
    assert table(["money"]).tolist() == [[0, 0]]  # though the file has it
    assert table([]).shape == (0, table.size) == (0, 2)
    assert StaticLookup(["a"], [[1.0]]).look_up(["b"]) == 0  # there is no file


def test_without_lowercase_only_the_exact_form_will_do(tmp_path: Path) -> None:
    path = glove(tmp_path / "glove.txt")
    table = StaticLookup.read(path, ["Bank", "The"], lowercase=False)
    assert table.words == ["Bank"]
    assert "Bank" in table
    assert "The" not in table
    assert table(["The"]).tolist() == [[0, 0]]


def test_unknown_words_share_a_vector_that_learns_beside_a_frozen_table(tmp_path: Path) -> None:
    table = StaticLookup.read(glove(tmp_path / "glove.txt"), ["the"])
    vectors = table(["qwx", "the", "zzz"])
    assert vectors.tolist() == [[0, 0], [1, 2], [0, 0]]
    vectors.sum().backward()
    assert table.unknown.grad is not None
    assert table.unknown.grad.tolist() == [2, 2]
    assert table.vectors.grad is None


def test_a_trainable_table_learns_the_rows_that_were_read(tmp_path: Path) -> None:
    table = StaticLookup.read(glove(tmp_path / "glove.txt"), ["the", "bank"], trainable=True)
    table(["bank", "Bank", "qwx"]).sum().backward()
    assert table.vectors.grad is not None
    assert table.vectors.grad.tolist() == [[0, 0], [2, 2]]


def test_a_file_of_other_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"glove\.txt: has a vector for none of 2 words"):
        StaticLookup.read(glove(tmp_path / "glove.txt"), ["강", "은행"])


def test_description_and_weights_make_the_same_table_again(tmp_path: Path) -> None:
    path = glove(tmp_path / "glove.txt")
    table = StaticLookup.read(path, ["the", "Bank"], trainable=True)
    torch.nn.init.normal_(table.vectors)
    torch.nn.init.normal_(table.unknown)

    description = json.loads(json.dumps(table.description()))
    again = StaticLookup.from_description(description)
    again.load_state_dict(table.state_dict())

    words = ["the", "The", "Bank", "BANK", "qwx"]
    assert torch.equal(again(words), table(words))
    assert again.source == table.source
    assert again.vectors.requires_grad


@pytest.mark.parametrize("trainable", [False, True])
def test_new_words_are_looked_up_in_the_file(tmp_path: Path, trainable: bool) -> None:
    path = glove(tmp_path / "glove.txt")
    table = StaticLookup.read(path, ["the", "BANK"], trainable=trainable)
    before = table(["Bank", "the"])

    assert table.look_up(["Money", "Bank", "qwx"]) == 2

    assert before.tolist() == [[3, 4], [1, 2]]
    assert table(["Money", "Bank", "the"]).tolist() == [[9, 10], [5, 6], [1, 2]]
    assert table(["qwx"]).tolist() == [[0, 0]]
    assert table.vectors.requires_grad is trainable
    assert table.vectors.shape == (4, 2)


def test_a_word_is_looked_up_once_whether_it_was_found_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = StaticLookup.read(glove(tmp_path / "glove.txt"), ["The", "qwx"])
    again = StaticLookup.from_description(table.description())
    table.look_up(["money", "zzz"])
    monkeypatch.setattr("elmokit.tasks.inputs.read_word_vectors", None)
    assert table.look_up(["the", "qwx", "money", "zzz"]) == 0
    assert again.look_up(["The", "qwx", "the"]) == 0


def gone(path: Path) -> None:
    path.unlink()


def another(path: Path) -> None:
    glove(path, {"the": [0, 0], "money": [100, 200]})


@pytest.mark.parametrize("change", [gone, another])
def test_a_file_that_is_gone_or_another_is_said_once_and_words_are_unknown(
    tmp_path: Path, change: object
) -> None:
    path = glove(tmp_path / "glove.txt")
    table = StaticLookup.read(path, ["the"])
    change(path)  # type: ignore[operator]
    with pytest.warns(ElmoWarning, match=r"glove\.txt: is gone, or is another.*unknown, 1 of them"):
        assert table.look_up(["money"]) == 0
    assert table(["money", "the"]).tolist() == [[0, 0], [1, 2]]
    with warnings.catch_warnings(action="error"):
        assert table.look_up(["river"]) == 0


def test_words_that_have_a_vector_in_lower_case_are_not_counted_as_unknown(tmp_path: Path) -> None:
    path = glove(tmp_path / "glove.txt")
    table = StaticLookup.read(path, ["the"])
    gone(path)
    with warnings.catch_warnings(action="error"):
        assert table.look_up(["THE"]) == 0
    with pytest.warns(ElmoWarning, match="1 of them"):
        table.look_up(["THE", "Money"])


def test_words_are_looked_up_in_a_folder_of_our_own_vectors_too(tmp_path: Path) -> None:
    folder = tmp_path / "word2vec"
    save_word_vectors(folder / "vectors.safetensors", list(GLOVE), list(GLOVE.values()))
    table = StaticLookup.read(folder, ["the"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.look_up(["river"]) == 1
    assert table(["river"]).tolist() == [[7, 8]]
