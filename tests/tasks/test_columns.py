from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import error_of, write
from tasks.small_tasks import embedder, train, write_examples

from elmokit.io.text_files import TextSettings, read_lines
from elmokit.tasks.ask import answer_lines, items_of, settings_to_predict
from elmokit.tasks.columns import columns_text
from elmokit.tasks.coref.scores import score_clusters
from elmokit.tasks.coref.task import CorefPrediction
from elmokit.tasks.files.conll import read_columns, read_conll_coref, read_conllu, read_props
from elmokit.tasks.run import TaskResult
from elmokit.tasks.scores import Counts, score_spans
from elmokit.tasks.srl.task import FoundArgument, FoundPredicate, RolePrediction, score_roles
from elmokit.tasks.task import TextSpan
from elmokit.tasks.trained import TrainedTask


@pytest.fixture(scope="module")
def ner(tmp_path_factory: pytest.TempPathFactory) -> TrainedTask:
    """A tagger that has not learnt all there is."""
    return train(tmp_path_factory.mktemp("ner"), "ner", {"training.epochs": 3}).trained


def added(trained: TrainedTask, file: Path, **given: Any) -> Path:
    """The file that `elmo task predict` makes of a labelled one."""
    settings = settings_to_predict(file, trained.config, **given)
    items = items_of(read_lines(file), trained.config, settings)
    lines = answer_lines(trained, items, shown_as="conll")
    return write(file.with_name(f"found-{file.name}"), lines)


def printed(trained: TrainedTask, asked: Sequence[Any]) -> str:
    """What is printed of items that come without columns."""
    found = trained.predict(asked)
    return "\n".join(columns_text(one, n) for n, one in enumerate(found, start=1))


def tags_of(path: Path, column: int) -> list[tuple[str, ...]]:
    settings = TextSettings(label_column=str(column))
    return [one.tags or () for one in read_columns(path, settings)]


def test_the_last_two_columns_score_as_the_task_is_scored(ner: TrainedTask, tmp_path: Path) -> None:
    file = write_examples(tmp_path, "ner", "test")
    found = added(ner, file)
    score = score_spans(tags_of(found, -2), tags_of(found, -1))
    assert score.to_dict() == ner.evaluate(file).score.to_dict()
    assert 0 < score.main < 1
    assert [line.rpartition(" ")[0] for line in found.read_text().splitlines()] == (
        file.read_text().splitlines()
    )


def test_what_is_no_word_stays_and_every_row_has_a_column_more(
    ner: TrainedTask, tmp_path: Path
) -> None:
    lines = ["-DOCSTART- -X- O", "", "Jim N B-PER", "-DOCSTART- -X- O", "# N O", "Oslo N B-LOC"]
    file = write(tmp_path / "x.bio", lines)
    found = added(ner, file).read_text().splitlines()
    assert [row.split()[:3] for row in found] == [*map(str.split, lines), []]
    assert {len(row.split()) for row in found if row} == {4}
    tabs = write(tmp_path / "tabs.txt", ["Jim\u00a0Lee\tB-PER", "", "", "go\tO", ""])
    rows = added(ner, tabs, format="columns").read_text().split("\n")
    assert [row.split("\t")[0] for row in rows] == ["Jim\u00a0Lee", "", "", "go", "", ""]


def test_a_tag_of_conllu_is_in_its_place(tmp_path: Path) -> None:
    pos = train(tmp_path, "pos", {"training.epochs": 3}).trained
    rest = "\t_" * 5
    rows = ["1-2\tthe dog\t_\t_\t_", "1\tthe\tx\tX\tY", "2\tdog\tx\t_\tY"]
    odd = "\n".join(["# text = the dog", *(row + rest for row in rows), ""])
    file = write(tmp_path / "in.conllu", odd)
    found = added(pos, file)
    assert [one.words for one in read_conllu(found, TextSettings())] == [("the", "dog")]
    [prediction] = pos.predict([["the", "dog"]])
    [sentence] = read_conllu(found, TextSettings())
    assert sentence.tags == prediction.tags
    changed = found.read_text().splitlines()
    assert changed[:2] == odd.splitlines()[:2]
    assert changed[2].split("\t")[:3] + changed[2].split("\t")[4:] == [
        "1", "the", "x", "Y", *"_____",
    ]  # fmt: skip


def test_roles_take_the_place_of_those_of_the_file(
    trained_srl: TrainedTask, learnt_srl: TaskResult
) -> None:
    file = learnt_srl.folder.parent / "srl.dev.tsv"
    found = added(trained_srl, file, format="propbank")
    gold, predicted = (read_props(one, "propbank", TextSettings()) for one in (file, found))
    assert [one.words for one in gold] == [one.words for one in predicted]
    assert [one.predicates for one in gold] == [one.predicates for one in predicted]
    right, own = (
        [each.phrases for one in some for each in one.propositions or ()]
        for some in (gold, predicted)
    )
    score, expected = score_roles(right, own, Counts()), trained_srl.evaluate(file).score
    assert (score.total, score.perfect) == (expected.total, expected.perfect)


def test_roles_of_raw_text_are_propbank_columns(trained_srl: TrainedTask, tmp_path: Path) -> None:
    out = write(
        tmp_path / "out.tsv", printed(trained_srl, ["We 777 MOTHER. You 1000 WWW", "we go"])
    )
    first, second, third = read_props(out, "propbank", TextSettings())
    assert (first.words, first.predicates) == (("We", "777", "MOTHER", "."), (1,))
    assert [phrase.type for phrase in first.propositions[0].phrases] == ["ARG0", "V", "ARG2"]
    assert (second.predicates, third.predicates) == ((1,), ())


def test_an_argument_around_its_predicate_leaves_it_a_phrase_of_its_own() -> None:
    around = FoundArgument("ARG1", "it sold it", 0, 3, None, None, 1.0)
    sold = FoundPredicate("sold", 1, None, None, None, (around,))
    text = columns_text(RolePrediction(("it", "sold", "it"), (sold,)), 1)
    assert [row.split("\t")[-1] for row in text.splitlines()] == ["(ARG1*)", "(V*)", "(ARG1*)"]


def test_chains_are_a_column_more_and_score_as_the_task_is_scored(
    learnt_coref: TaskResult,
) -> None:
    trained = TrainedTask.load(learnt_coref.folder, bilm=embedder())
    file = learnt_coref.folder.parent / "dev.conll"
    found = added(trained, file)
    gold, own = (
        [one.clusters or () for one in read_conll_coref(each, TextSettings())]
        for each in (file, found)
    )
    assert score_clusters(gold, own).to_dict() == trained.evaluate(file).score.to_dict()


def test_chains_that_touch_and_are_in_one_another_are_read_back(tmp_path: Path) -> None:
    spans = (((0, 2), (2, 3)), ((1, 2), (2, 5)), ((3, 5), (4, 5)))
    clusters = tuple(
        tuple(TextSpan("", first, end, None, None) for first, end in some) for some in spans
    )
    text = columns_text(CorefPrediction(tuple("abcde"), clusters, None, (0, 2)), 7)
    [document] = read_conll_coref(write(tmp_path / "out.conll", text), TextSettings())
    assert tuple(tuple(map(tuple, some)) for some in document.clusters or ()) == spans
    assert document.sentences == (("a", "b"), ("c", "d", "e"))
    assert (document.name, text.split()[2]) == (document.name, "(7);")


def test_tags_of_raw_text_are_words_and_tags(ner: TrainedTask, tmp_path: Path) -> None:
    text = "we see Jim Lee. Ann is at Oslo."
    out = write(tmp_path / "out.conll", printed(ner, [text, ["New York", "go"]]))
    [prediction] = ner.predict([text])
    sentences = [(one.words, one.tags) for one in read_columns(out, TextSettings())[:2]]
    assert [len(words) for words, _ in sentences] == [5, 5]
    assert sum((tags for _, tags in sentences), ()) == prediction.tags
    assert "\nNew York\t" in out.read_text()  # a word with a space needs a tab behind it


@pytest.mark.parametrize(
    ("name", "given", "lines", "message"),
    [
        ("x.json", {}, ["{}"], "x.json: is a .json file, but the task needs tagged words"),
        ("x.txt", {"format": "coref"}, ["a"], "x.txt: is read as 'coref', but the task needs"),
        ("x.conll", {}, ["a b", "a"], "x.conll, line 2: has 1 column, but the lines before have 2"),
        ("x.conllu", {}, ["1\ta"], "x.conllu, line 1: has 2 values between tabs"),
    ],
)
def test_columns_that_cannot_be_read_are_an_error_with_their_place(
    ner: TrainedTask, tmp_path: Path, monkeypatch: Any, name: str, given: Any, lines: list[str],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    file = write(Path(name), lines)
    assert error_of(added, ner, file, **given).startswith(message)
