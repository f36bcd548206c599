from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pretraining.small_runs import prepared

from elmokit.errors import ConfigError, InputError
from elmokit.io.text_files import TextSettings
from elmokit.pretraining import corpus as counting
from elmokit.pretraining.corpus import build_vocabulary, check_falling, write_corpus_vocabulary
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
SPECIAL = ["<S>", "</S>", "<UNK>"]


@pytest.fixture
def corpus(tmp_path: Path) -> PreparedCorpus:
    return prepared(tmp_path, "c c c b b a\nc a b é\n")


def test_words_are_sorted_by_falling_count_after_the_special_ones(corpus):
    vocabulary = build_vocabulary(corpus)
    assert vocabulary.words == (*SPECIAL, "c", "b", "a", "é")
    assert vocabulary.counts == (2, 2, 0, 4, 3, 2, 1)


def test_words_left_out_count_as_unknown(corpus):
    vocabulary = build_vocabulary(corpus, max_size=5)
    assert vocabulary.words == (*SPECIAL, "c", "b")
    assert vocabulary.counts == (2, 2, 3, 4, 3)
    assert build_vocabulary(corpus, min_count=2).words == (*SPECIAL, "c", "b", "a")


def test_literal_special_words_count_as_unknown_and_never_come_twice(tmp_path):
    vocabulary = build_vocabulary(prepared(tmp_path, "<S> <S> </S> <UNK> a !!!MAXTERMID\n"))
    assert vocabulary.words == (*SPECIAL, "a")
    assert vocabulary.counts == (1, 1, 5, 1)
    write_vocabulary(vocabulary, tmp_path / "vocabulary.txt")
    assert read_vocabulary(tmp_path / "vocabulary.txt").counts == vocabulary.counts


@quick
@given(
    words=st.lists(st.sampled_from("abcdefgé고🙂"), min_size=1, max_size=40),
    max_size=st.none() | st.integers(4, 15),
)
def test_most_frequent_words_are_kept(tmp_path_factory, words, max_size):
    corpus = prepared(tmp_path_factory.mktemp("corpus"), " ".join(words))
    by_rank = sorted(set(words), key=lambda word: (-words.count(word), word.encode()))
    vocabulary = build_vocabulary(corpus, max_size=max_size)
    assert list(vocabulary.words) == (SPECIAL + by_rank)[:max_size]
    assert vocabulary.counts is not None
    assert sum(vocabulary.counts[2:]) == len(words)


@pytest.mark.parametrize("limits", [{"max_size": 3}, {"min_count": 0}, {"max_size": 2.5}])
def test_limits_that_leave_nothing_are_refused(corpus, limits):
    with pytest.raises(ConfigError, match="must be a whole number of at least"):
        build_vocabulary(corpus, **limits)


def test_count_that_no_word_reaches_is_refused(corpus):
    with pytest.raises(InputError, match="no word comes 5 times"):
        build_vocabulary(corpus, min_count=5)


def test_vocabulary_by_falling_count_passes_with_counts_and_without(corpus):
    vocabulary = build_vocabulary(corpus, max_size=6)
    check_falling(vocabulary, corpus, "vocabulary.txt")
    check_falling(Vocabulary(vocabulary.words), corpus, "vocabulary.txt")


def test_own_counts_go_before_those_of_the_text(corpus):
    check_falling(Vocabulary([*SPECIAL, "a", "c"], [2, 2, 0, 9, 9]), corpus, "vocabulary.txt")


@pytest.mark.parametrize("counts", [None, [2, 2, 9, 4, 1, 2]])
def test_vocabulary_out_of_order_is_refused_with_the_word_and_its_line(corpus, counts):
    words = [*SPECIAL, "c", "é", "a"]
    with pytest.raises(InputError) as caught:
        check_falling(Vocabulary(words, counts), corpus, "vocabulary.txt")
    message = str(caught.value)
    assert message.startswith(
        "vocabulary.txt, line 6: 'a' comes 2 times, the word before it 1 time"
    )
    assert "takes the id for the rank" in message
    assert message.endswith("build one: elmo vocabulary")


@pytest.mark.parametrize(
    "words",
    [["c", "b", "a"], ["</S>", "<S>", "<UNK>", "c"], ["<S>", "</S>", "c", "<UNK>"], ["<S>"]],
)
def test_vocabulary_without_the_special_words_first_is_refused(corpus, words):
    with pytest.raises(InputError, match=r"^v\.txt: begins with .* build one: elmo vocabulary$"):
        check_falling(Vocabulary(words), corpus, "v.txt")


def test_vocabulary_of_files_is_written_and_summed_up(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("b b b a\n")
    output = tmp_path / "new" / "vocabulary.txt"
    summary = write_corpus_vocabulary(
        [tmp_path / "text"], output, TextSettings(), max_size=4, cache=tmp_path / "cache"
    )
    assert output.read_text() == "<S>\t1\n</S>\t1\n<UNK>\t1\nb\t3\n"
    assert summary.to_dict() == {
        "output": str(output),
        "sentences": 1,
        "words": 4,
        "types": 2,
        "kept": 4,
        "coverage": 0.75,
    }
    assert "75.00 %" in summary.describe()


def test_output_is_refused_before_anything_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "prepare_corpus", None)
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    there = tmp_path / "vocabulary.txt"
    there.write_text("old\n")
    for output, force, message in (
        (there, False, "is there already"),
        (text, True, "is what is read"),
        (tmp_path, True, "is a folder"),
    ):
        with pytest.raises(InputError, match=message):
            write_corpus_vocabulary([text], output, force=force)
    assert there.read_text() == "old\n"
