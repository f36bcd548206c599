from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import assert_close
from helpers import error_of
from tasks.small_coref import coref_config
from tasks.small_tasks import embedder, untrained

from elmokit.errors import ElmoWarning, InputError
from elmokit.tasks.coref import task as coref_task
from elmokit.tasks.coref.documents import Document, PronounQuestion, Span
from elmokit.tasks.coref.network import ReadWords, antecedent_loss
from elmokit.tasks.coref.scores import CorefScore, GapScore
from elmokit.tasks.coref.task import CorefPrediction, CorefTask, mention_loss, read_words
from elmokit.tasks.examples import Labels
from elmokit.tasks.run import TaskResult, train_task
from elmokit.tasks.task import TaskModel
from elmokit.text.tokenizer import load_tokenizer


def task(**settings: Any) -> CorefTask:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return CorefTask(coref_config(named), Labels(()))


def document(text: str, *clusters: tuple[tuple[int, int], ...]) -> Document:
    sentences = tuple(tuple(line.split()) for line in text.split("/"))
    return Document(
        sentences, tuple(tuple(Span(*span) for span in some) for some in clusters), "here, line 1"
    )


ANN = document("Ann sleeps ./she dreams ./a dog barks", ((0, 1), (3, 4)), ((6, 8),))


# Data


def test_without_any_two_mentions_of_the_same_nothing_can_be_learnt() -> None:
    alone = [document("a b"), document("a b", ((0, 1),))]
    assert error_of(CorefTask.labels_of, alone) == (
        "here, line 1 and after: no document has two mentions of the same; give a file that has "
        "some"
    )
    assert len(CorefTask.labels_of([*alone, ANN])) == 0


def test_singletons_are_left_out_and_counted_unless_they_are_to_be_found() -> None:
    with pytest.warns(ElmoWarning, match="corefer with nothing are left out: 1; --set"):
        [prepared] = task().prepare([ANN])
    assert prepared.clusters == ANN.clusters[:1]  # type: ignore[index]
    assert task(coref__singletons=True).prepare([ANN]) == [ANN]


def test_the_parts_of_a_document_and_the_questions_about_a_text_are_held_out_together() -> None:
    parts = [replace(ANN, name=f"ann; part 00{number}") for number in range(2)]
    assert len({CorefTask.group_of(part) for part in parts}) == 1
    assert CorefTask.group_of(parts[0]) != CorefTask.group_of(replace(ANN, name="bo; part 000"))
    question = PronounQuestion(Span(3, 4), Span(0, 1), Span(6, 8), True, False, True)
    asked = [replace(ANN, name=f"test-{number}", question=question) for number in range(2)]
    assert len({CorefTask.group_of(row) for row in asked}) == 1


def test_documents_are_trained_on_in_segments() -> None:
    parts = task(coref__segment_words=6).for_training([ANN])
    assert [len(part.words) for part in parts] == [6, 3]


# Network and documents


@torch.no_grad()
def test_words_are_read_in_their_order_whatever_the_lengths_of_sentences() -> None:
    model = untrained(task())
    other = document("x y z w v/q", ())
    first, second = read_words(model, [ANN, other])
    for example, found in ((ANN, first), (other, second)):
        for number, words in enumerate(example.sentences):
            start = sum(map(len, example.sentences[:number]))
            alone = model.network.read(model.inputs([words]))
            for one, whole in zip(alone, found, strict=True):
                assert_close(one, whole[start : start + len(words)])


def portions_of(model: TaskModel[Any]) -> list[int]:
    """Words, padding counted, of all that will be read at once."""
    portions: list[int] = []
    model.inputs.register_forward_hook(
        lambda module, inputs, output: portions.append(output.mask.numel())
    )
    return portions


@torch.no_grad()
def test_words_read_in_portions_are_those_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained(task())
    portions = portions_of(model)
    documents = [ANN, document("x y z w v/q")]
    at_once = list(read_words(model, documents))
    assert portions == [25]
    monkeypatch.setattr(coref_task, "READ_AT_ONCE", 6)
    in_portions = list(read_words(model, documents))
    assert portions[1:] == [5, 6, 6]
    for one, other in zip(at_once, in_portions, strict=True):
        for part, same in zip(one, other, strict=True):
            assert_close(part, same)


@torch.no_grad()
def test_a_guess_depends_on_the_document_alone() -> None:
    coref = task()
    model = untrained(coref)
    documents = [ANN, document("x y z w v/q"), document("Ann is Ann/she/Ann")]
    together = coref.guess(model, documents)
    assert together == [coref.guess(model, [each])[0] for each in documents]


@torch.no_grad()
def test_a_very_long_document_is_resolved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    coref = task(coref__spans_per_word=1.0)
    model = untrained(coref)
    model.network.pairs.scorer.score.bias.fill_(100.0)  # everything refers back to something
    parts = [document("Ann sees Ann ./she is Ann ."), document("Bo sees Bo ./he is Bo .")]
    both = document("/".join(" ".join(words) for part in parts for words in part.sentences))
    apart = [coref.guess(model, [part])[0] for part in parts]
    assert len(coref.guess(model, [both])[0]) == 1
    monkeypatch.setattr(coref_task, "LONGEST_DOCUMENT", 8)
    with pytest.warns(ElmoWarning, match="8 words, and read in 2 parts, between which nothing is"):
        [found] = coref.guess(model, [both])
    moved = tuple(tuple(span.moved(8) for span in cluster) for cluster in apart[1])
    assert found == (*apart[0], *moved)


@torch.no_grad()
def test_as_many_spans_are_kept_as_words_allow_and_given_ones_always() -> None:
    coref = task(coref__spans_per_word=0.3)
    [words] = read_words(untrained(coref), [ANN])
    assert len(coref._kept(words, ())) == 3
    every = [Span(n, n + 1) for n in range(9)]
    assert set(coref._kept(words, every)) == set(every)


@torch.no_grad()
def test_mentions_alone_are_found_where_they_are_wanted() -> None:
    coref = task(coref__singletons=True, coref__spans_per_word=1.0)
    model = untrained(coref)
    model.network.pairs.scorer.score.bias.fill_(-100.0)  # nothing refers back
    model.network.mentions.scorer.score.bias.fill_(10.0)
    assert len(coref.guess(model, [ANN])[0]) == 9
    model.network.mentions.scorer.score.bias.fill_(-10.0)
    assert coref.guess(model, [ANN]) == [()]


def test_the_mention_loss_is_that_of_every_span() -> None:
    coref = task()
    [words] = read_words(untrained(coref), [ANN])
    expected = 0.0
    mentions = {span for cluster in ANN.clusters or () for span in cluster}
    for start, width in (words.scores > -torch.inf).nonzero().tolist():
        p = words.scores[start, width].sigmoid()
        right = Span(start, start + width + 1) in mentions
        expected -= (p if right else 1 - p).log().item()
    assert_close(mention_loss(words, ANN.clusters or ()), expected)


def test_documents_without_mentions_or_with_long_ones_can_be_trained_on() -> None:
    coref = task()
    loss = coref.loss(untrained(coref), [document("a b c d", ((0, 4), (1, 2))), document("a b c")])
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.isfinite()


def link_loss(
    model: TaskModel[Any], words: ReadWords, spans: Sequence[Span], clusters: list[int]
) -> float:
    [antecedents] = model.network.antecedents(model.network.keep(words, spans))
    return antecedent_loss(antecedents, torch.tensor(clusters)).item()


@torch.no_grad()
def test_the_loss_is_that_of_links_and_of_mentions_per_kept_span() -> None:
    # So that every word is a span that is kept.
    spans_are_words = {"coref__longest_span": 1, "coref__spans_per_word": 1.0}
    coref = task(coref__mention_loss=0.5, **spans_are_words)
    model = untrained(coref)
    documents = [ANN, document("x Ann y", ((0, 1), (1, 2)))]
    total = 0.0
    for example, clusters in zip(documents, ([0, -1, -1, 0, *[-1] * 5], [0, 0, -1]), strict=True):
        [words] = read_words(model, [example])
        spans = [Span(n, n + 1) for n in range(len(clusters))]
        total += link_loss(model, words, spans, clusters)
        total += 0.5 * mention_loss(words, example.clusters or ()).item()
    assert_close(coref.loss(model, documents), total / 12)


# GAP


def question(is_first: bool) -> Document:
    spans = Span(3, 4), Span(0, 1), Span(6, 8)
    asked = PronounQuestion(*spans, is_first, not is_first, feminine=True)
    return Document(ANN.sentences, (), "here, line 2", question=asked)


@torch.no_grad()
def test_spans_of_a_question_and_no_others_are_looked_at() -> None:
    coref = task(coref__spans_per_word=0.4)
    model = untrained(coref)
    model.network.pairs.scorer.score.bias.fill_(100.0)
    assert coref.guess(model, [question(True)]) == [((Span(0, 1), Span(3, 4), Span(6, 8)),)]


@torch.no_grad()
def test_a_name_that_is_too_long_to_be_a_span_is_left_out() -> None:
    coref = task(coref__longest_span=1)
    model = untrained(coref)
    model.network.pairs.scorer.score.bias.fill_(100.0)
    assert coref.guess(model, [question(True)]) == [((Span(0, 1), Span(3, 4)),)]


@torch.no_grad()
def test_the_loss_of_a_question_is_that_of_its_links_alone() -> None:
    coref = task(coref__mention_loss=0.5)
    model = untrained(coref)
    first, pronoun, second = spans = Span(0, 1), Span(3, 4), Span(6, 8)
    [words] = read_words(model, [ANN])
    for is_first, clusters in ((True, [0, 0, -1]), (False, [-1, 0, 0])):
        right = (first, pronoun) if is_first else (pronoun, second)
        example = replace(question(is_first), clusters=(right,))
        expected = link_loss(model, words, spans, clusters) / 3
        assert_close(coref.loss(model, [example]), expected)


def test_files_without_a_mention_are_refused_in_one_line() -> None:
    nothing = document("a dog barks")
    message = error_of(task().prepare, [nothing])
    assert message.startswith("here, line 1 and after: no document has a mention")
    some = document("Ann sleeps ./she dreams", ((0, 1), (3, 4)))
    assert task().prepare([nothing, some])[0].clusters == ()


def test_questions_are_scored_by_names_and_documents_by_clusters() -> None:
    coref = task()
    asked = [question(True), question(False)]
    found = coref.score(asked, [((Span(0, 1), Span(3, 4)),)] * 2)
    assert isinstance(found, GapScore)
    assert found.accuracy == 0.5
    assert isinstance(coref.score([ANN], [()]), CorefScore)
    message = error_of(coref.score, [ANN, *asked], [()] * 3)
    assert "rows of GAP and complete documents have different scores" in message


# What is asked


def test_texts_words_and_sentences_can_be_asked_about() -> None:
    coref, tokenizer = task(), load_tokenizer("default")
    raw = coref.parse_input("Ann sleeps. She dreams.", tokenizer, "item 1")
    expected = (("Ann", "sleeps", "."), ("She", "dreams", "."))
    assert raw.examples[0].sentences == expected
    assert raw.offsets[3] == (12, 15)
    assert coref.parse_input(expected, tokenizer, "item 1").examples == raw.examples
    assert coref.parse_input(["Ann", "sleeps"], tokenizer, "i").examples[0].sentences == (
        ("Ann", "sleeps"),
    )


def test_words_of_documents_that_are_blank_are_refused() -> None:
    message = error_of(
        task().parse_input, [["Ann"], ["a", " "]], load_tokenizer("default"), "item 2"
    )
    assert message.startswith("item 2, sentence 2: word 1, from 0, is blank (' ')")


@pytest.mark.parametrize("item", [3, ["a", ["b"]], [["a", 1]], None])
def test_what_is_no_text_is_refused(item: Any) -> None:
    message = error_of(task().parse_input, item, load_tokenizer("default"), "item 2")
    assert message.startswith("item 2")
    assert message.endswith("give a text, or a list of words")


@pytest.mark.parametrize("item", ["", " \n", [], [[], []]])
def test_nothing_cannot_be_asked_about(item: Any) -> None:
    assert "has no words" in error_of(task().parse_input, item, load_tokenizer("default"), "item 1")


# Complete runs


def test_mentions_are_bracketed_in_the_raw_text(learnt_coref: TaskResult) -> None:
    text = "the Zoë Ek\n\nsees  she\n\nQQQ\n\nand XX"
    [found] = learnt_coref.trained.predict([text])
    assert isinstance(found, CorefPrediction)
    assert found.to_text() == "the [1 Zoë Ek]\n\nsees  [1 she]\n\n[2 QQQ]\n\nand [2 XX]"
    mention = found.to_dict()["clusters"][0][0]
    assert text[mention["start"] : mention["end"]] == mention["text"] == "Zoë Ek"


def test_a_run_without_anything_to_learn_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "none.conll"
    path.write_text("#begin document (a)\na\t0\t0\tAnn\tNN\t-\n#end document\n")
    with pytest.raises(InputError, match="no document has two mentions of the same"):
        train_task(coref_config(), tmp_path / "out", train=path, bilm=embedder())
    assert not (tmp_path / "out").exists()
