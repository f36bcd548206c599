from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from helpers import write
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree
from tasks import small_files

from elmokit.tasks.examples import TextExample
from elmokit.tasks.files.trees import unescaped

quick = settings(max_examples=50, deadline=None, derandomize=True, database=None)
LOVELY = "(3 (2 It) (4 (4 (2 's) (4 lovely)) (2 .)))"


def trees(folder: Path, contents: str, **chosen: Any) -> list[TextExample]:
    return small_files.read("text", write(folder / "trees.txt", contents), **chosen)


def phrases(folder: Path, contents: str) -> list[tuple[str, str | None]]:
    found = trees(folder, contents, phrases=True)
    return [(" ".join(example.words), example.label) for example in found]


def test_sentence_has_the_label_of_its_root(tmp_path):
    path = tmp_path / "trees.txt"
    assert trees(tmp_path, f"{LOVELY}\n(1 (1 Bad) (2 film))\r\n") == [
        TextExample(("It", "'s", "lovely", "."), "3", f"{path}, line 1"),
        TextExample(("Bad", "film"), "1", f"{path}, line 2"),
    ]


def test_every_phrase_has_its_own_label_a_phrase_before_its_parts(tmp_path):
    assert phrases(tmp_path, LOVELY) == [
        ("It 's lovely .", "3"),
        ("It", "2"),
        ("'s lovely .", "4"),
        ("'s lovely", "4"),
        ("'s", "2"),
        ("lovely", "4"),
        (".", "2"),
    ]


def test_phrase_comes_once_with_each_of_its_labels(tmp_path):
    found = phrases(tmp_path, "(3 (2 good) (2 good))\n(3 (2 good) (4 good))\n(4 good)\n")
    assert found == [("good good", "3"), ("good", "2"), ("good", "4")]


def test_sentences_that_come_again_stay_without_phrases(tmp_path):
    assert len(trees(tmp_path, f"{LOVELY}\n{LOVELY}\n")) == 2


def test_phrase_around_one_phrase_comes_first(tmp_path):
    assert phrases(tmp_path, "(4 (3 (2 fine)))") == [("fine", "4"), ("fine", "3"), ("fine", "2")]


def test_escapes_of_the_treebank_are_undone(tmp_path):
    escaped = r"(2 (2 -LRB-) (2 (2 and\/or) (2 (2 \*\*) (2 -RCB-))))"
    assert trees(tmp_path, escaped)[0].words == ("(", "and/or", "**", "}")
    assert [unescaped(mark) for mark in ("``", "''")] == ['"', '"']


def test_short_phrases_are_left_out_where_asked_and_sentences_without_phrases_never(tmp_path):
    contents = "(4 (2 a) (4 (2 b) (4 c)))\n(3 d)\n"
    found = trees(tmp_path, contents, phrases=True, shortest_phrase=2)
    assert [example.words for example in found] == [("a", "b", "c"), ("b", "c")]
    assert len(trees(tmp_path, contents, shortest_phrase=2)) == 2


@pytest.mark.parametrize("word", ["`", "'", "```", "-lrb-", "-LRB-s", "\\", "a\\b", "--"])
def test_what_is_no_escape_stays(word):
    assert unescaped(word) == word


def test_blank_of_any_kind_separates_words(tmp_path):
    assert trees(tmp_path, "(2 8\u00a01\\/2)")[0].words == ("8", "1/2")


LABEL = st.sampled_from("01234")
LEAF = st.builds(lambda label, word: f"({label} {word})", LABEL, st.sampled_from(["a", "b", "'s"]))
TREE = st.recursive(
    LEAF,
    lambda parts: st.builds(
        lambda label, inner: f"({label} {' '.join(inner)})",
        LABEL,
        st.lists(parts, min_size=1, max_size=3),
    ),
    max_leaves=12,
)


@given(lines=st.lists(TREE, min_size=1, max_size=4))
@quick
def test_phrases_are_those_that_nltk_finds(lines: list[str]):
    with TemporaryDirectory() as folder:
        found = phrases(Path(folder), "\n".join(lines))
    subtrees = [subtree for line in lines for subtree in Tree.fromstring(line).subtrees()]
    theirs = [(" ".join(subtree.leaves()), subtree.label()) for subtree in subtrees]
    assert found == list(dict.fromkeys(theirs))


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ("(3 (2 It)", "a bracket is not closed"),
        ("(3 (2 It)))", "it continues after its end"),
        ("(3 It) (2 's)", "it continues after its end"),
        (")", "a bracket is closed that was not opened"),
        ("((2 It) (2 's))", "a phrase has no label"),
        ("()", "a phrase has no label"),
        ("(3 (2) (2 's))", "a phrase has no words"),
        ("3\tIt 's lovely", "a word is outside of the brackets"),
    ],
)
def test_line_that_is_no_tree_is_refused(tmp_path, contents, why):
    path = write(tmp_path / "trees.txt", f"{LOVELY}\n{contents}\n")
    said = small_files.said_of("text", path)
    assert said.startswith(f", line 2: is not a tree, since {why}; ")


def test_deep_tree_is_read(tmp_path):
    depth = 5000
    [example] = trees(tmp_path, "(2 " * depth + "deep" + ")" * depth)
    assert example.words == ("deep",)
