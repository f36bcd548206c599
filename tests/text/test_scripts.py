from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest
from helpers import write
from small_models import small_bilm

from elmokit import Embedder
from elmokit.errors import ElmoWarning
from elmokit.formats.find import read_model
from elmokit.inference.language_model import LanguageModel
from elmokit.service.state import ServedModel
from elmokit.text import scripts
from elmokit.text.scripts import SeenScripts, scripts_of

SEOUL = ["서울은", "큰", "도시다"]


def seen(folder: Path, words: Iterable[str]) -> SeenScripts:
    """What notices scripts that are not those of some words."""
    return SeenScripts(folder, write(folder / "vocabulary.txt", words))


def english(folder: Path, foreign: int = 0) -> SeenScripts:
    words = [f"river{number}" for number in range(1200 - foreign)]
    return seen(folder, words + [f"강{'가' * number}" for number in range(foreign)])


def noted(found: SeenScripts, *texts: list[str]) -> list[str]:
    """What is warned of when all words of some texts are new."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for words in texts:
            found.note(words, words)
    assert all(one.category is ElmoWarning for one in caught)
    return [str(one.message) for one in caught]


def test_a_script_that_is_not_in_the_vocabulary_is_warned_of_once(tmp_path, monkeypatch):
    monkeypatch.setattr(scripts, "BUNDLED_MODELS", ("english-small",))
    hangul, chinese = noted(english(tmp_path), SEOUL, SEOUL, ["北京", "大学"], ["왔다"])
    assert hangul.startswith(f"the model {tmp_path} has hardly seen Hangul; use a model of its ")
    assert "has hardly seen Chinese characters" in chinese


def test_the_bundled_model_of_the_script_is_named_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(scripts, "BUNDLED_MODELS", ("english-small", "korean-small"))
    [hangul] = noted(english(tmp_path / "english-small"), SEOUL)
    assert hangul == (
        "the model english-small has hardly seen Hangul; use korean-small (--model korean-small)"
    )
    [greek] = noted(english(tmp_path / "english-small"), ["καλημέρα"])
    assert "korean" not in greek


def test_a_name_in_another_script_is_nothing_to_warn_of(tmp_path):
    text = "the city of 北京 is large and very old , and its streets are wide ."
    assert not noted(english(tmp_path), text.split())


def test_marks_numbers_and_latin_of_any_kind_are_not_warned_of(tmp_path):
    assert not noted(english(tmp_path), ["naïve", "“", "”", "…", "ß", "😀", "µ"])


def test_a_script_that_the_vocabulary_has_is_not_warned_of(tmp_path):
    assert not noted(english(tmp_path, foreign=20), SEOUL)


def test_a_vocabulary_of_few_words_tells_nothing(tmp_path):
    assert not noted(seen(tmp_path, ["the", "river"]), SEOUL)


def test_the_vocabulary_is_not_read_for_ascii(tmp_path):
    assert not noted(SeenScripts(tmp_path, tmp_path / "gone"), ["The", "river", "bank"])


def test_a_vocabulary_that_is_gone_tells_nothing(tmp_path):
    assert not noted(SeenScripts(tmp_path, tmp_path / "gone"), SEOUL)


def test_a_copy_warns_again(tmp_path):
    found = english(tmp_path)
    assert len(noted(found, SEOUL)) == 1
    assert len(noted(pickle.loads(pickle.dumps(found)), SEOUL)) == 1


def test_letters_of_all_kinds_are_counted_by_script():
    assert scripts_of("강가 River 北京 か я 3 !") == {
        "HANGUL": 2,
        "LATIN": 5,
        "CJK": 2,
        "HIRAGANA": 1,
        "CYRILLIC": 1,
    }


@pytest.mark.parametrize("kind", [Embedder, LanguageModel])
def test_the_bundled_model_of_english_warns_of_korean(kind):
    model = kind.load()
    read = model.embed if kind is Embedder else model.score
    read([["The", "river", "bank"]])
    with pytest.warns(ElmoWarning, match="the model english-small has hardly seen Hangul"):
        read([SEOUL])
    read([SEOUL, ["왔다"]])


def test_a_model_in_memory_knows_nothing_of_scripts():
    assert len(Embedder(small_bilm()).embed([SEOUL])) == 1


def test_a_service_warns_once_for_vectors_and_words_together():
    model = ServedModel.of(read_model(), "english")
    with pytest.warns(ElmoWarning, match="hardly seen Hangul"):
        model.embedder.encode(["서울은 큰 도시다"])
    assert model.language_model is not None
    assert len(model.language_model.score([SEOUL])) == 1
