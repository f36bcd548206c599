from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from closeness import assert_close
from helpers import error_of
from tasks.small_srl import sentence, srl_config
from tasks.small_tasks import untrained

from elmokit.io.text_files import Line, TextSettings
from elmokit.tasks.ask import items_of
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.examples import size_of
from elmokit.tasks.inputs import BatchVectors
from elmokit.tasks.srl import task as srl_task
from elmokit.tasks.srl.network import Predicates
from elmokit.tasks.srl.propositions import Proposition, RoleSentence, WithPredicates
from elmokit.tasks.srl.task import (
    FoundArgument,
    FoundPredicate,
    RoleGuess,
    RolePrediction,
    SrlTask,
    TaggedPredicate,
)
from elmokit.tasks.task import ParsedInput
from elmokit.tasks.trained import TrainedTask
from elmokit.text.tokenizer import load_tokenizer

DEFAULT = load_tokenizer("default")
PLACE = "here, line 1"
SOLD = sentence("He sold it and left", (1, "B-ARG0 B-V B-ARG1 O O"), (4, "B-ARG0 O O O B-V"))
FLAT = sentence("So what", place="here, line 8")


def small_task(*examples: RoleSentence, **settings: Any) -> SrlTask:
    return SrlTask(srl_config(settings), SrlTask.labels_of(examples or (SOLD,)))


# Examples


def test_labels_are_the_bio_tags_of_all_roles() -> None:
    assert small_task().labels.names == (
        "O", "B-ARG0", "I-ARG0", "B-ARG1", "I-ARG1", "B-V", "I-V",
    )  # fmt: skip


def test_a_role_that_was_not_learnt_is_one_that_is_missed() -> None:
    task = small_task()
    unknown = sentence("He left now", (1, "B-ARG0 B-V B-ARGM-TMP"))
    [prepared] = task.prepare([unknown])
    score = task.score([prepared], [RoleGuess((1,), (("B-ARG0", "B-V", "O"),))])
    assert score.by_type["ARGM-TMP"].expected == 1
    assert score.total.recall == 0.5
    confusion = task.confusion([prepared], [RoleGuess((1,), (("B-ARG0", "B-V", "O"),))])
    assert confusion.confusions()[0][:2] == ("ARGM-TMP", "O")


def test_sentences_without_any_predicate_cannot_be_trained_on() -> None:
    found = error_of(small_task().prepare, [FLAT])
    assert found == "here, line 8 and after: no word is a predicate; give a file that has some"


def test_sentences_with_many_predicates_are_trained_on_in_parts() -> None:
    task = small_task(**{"training.batch_tokens": 6})
    parts = task.for_training([SOLD, FLAT])
    assert [size_of(part) for part in parts] == [5, 5, 2]


def test_the_same_sentence_is_held_out_wherever_it_stands() -> None:
    assert SrlTask.group_of(SOLD) == SrlTask.group_of(sentence("He sold it and left"))
    assert SrlTask.group_of(SOLD) != SrlTask.group_of(FLAT)


# Loss and guesses


def test_batch_mates_do_not_change_guesses() -> None:
    task = small_task()
    model = untrained(task)
    together = task.guess(model, [SOLD, FLAT])
    assert together == [*task.guess(model, [SOLD]), *task.guess(model, [FLAT])]
    assert [len(tags) for tags in together[0].tags] == [5, 5]
    assert together[1].tags == ()


@pytest.mark.parametrize("words_at_once", [1, 8, 24, 1000])
def test_some_predicates_are_tagged_among_their_own_sentences(
    words_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    task = small_task()
    model = untrained(task)
    lengths, predicates = (5, 2, 8, 3), ([0, 4], [], [1, 2, 7], [2])
    mask = torch.arange(8) < torch.tensor(lengths)[:, None]
    sizes = model.inputs.sizes
    words = BatchVectors(
        torch.randn(4, 8, sizes.at_input),
        torch.randn(4, 8, sizes.at_output) if sizes.at_output else None,
        mask,
    )
    rows = [row for row, some in enumerate(predicates) for _ in some]
    asked = Predicates(torch.tensor(rows), torch.tensor([at for some in predicates for at in some]))
    scores = model.network(words, asked).log_softmax(-1)
    monkeypatch.setattr(srl_task, "WORDS_AT_ONCE", words_at_once)

    for row, (names, log_probabilities) in enumerate(task._tagged(model, words, asked)):
        numbers = [task.labels.names.index(name) for name in names]
        assert len(numbers) == lengths[rows[row]]
        chosen = scores[row, torch.arange(len(numbers)), numbers]
        assert_close(torch.tensor(log_probabilities), chosen)


def test_the_loss_of_sentences_without_a_predicate_is_that_of_finding_none() -> None:
    task = small_task()
    model = untrained(task)
    words = model.inputs([FLAT.words])
    p_none = (1 - model.network.find(words).sigmoid()).log()
    assert_close(task.loss(model, [FLAT]), -p_none.mean())


def test_the_loss_is_minus_log_p_of_the_right_tags() -> None:
    task = small_task()
    model = untrained(task)
    words = model.inputs([SOLD.words])
    odds = model.network.find(words)[0]
    right = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    finding = -(right * odds.sigmoid().log() + (1 - right) * (-odds).sigmoid().log()).mean()
    asked = srl_task.predicates_of([SOLD], words.mask.device)
    log_p = model.network(words, asked).log_softmax(-1)
    tags = [["B-ARG0", "B-V", "B-ARG1", "O", "O"], ["B-ARG0", "O", "O", "O", "B-V"]]
    chosen = [
        log_p[row, word, task.labels.names.index(tag)]
        for row, of_row in enumerate(tags)
        for word, tag in enumerate(of_row)
    ]
    assert_close(task.loss(model, [SOLD]), finding - torch.stack(chosen).mean())


# Prediction


def predicted(trained_srl: TrainedTask, item: Any) -> RolePrediction:
    [found] = trained_srl.predict([item])
    assert isinstance(found, RolePrediction)
    return found


def test_predicates_are_found_with_their_arguments_and_places(trained_srl: TrainedTask) -> None:
    text = "We  777 MOTHER."
    found = predicted(trained_srl, text)
    [predicate] = found.predicates
    assert (predicate.text, text[predicate.start : predicate.end]) == ("777", "777")
    assert predicate.probability is not None
    assert 0.5 < predicate.probability <= 1
    by_role = {each.role: each for each in predicate.arguments}
    owner = by_role["ARG0"]
    assert (owner.text, owner.first_word, owner.start, owner.end) == ("We", 0, 0, 2)
    assert text[slice(by_role["ARG2"].start, by_role["ARG2"].end)] == by_role["ARG2"].text
    assert all(0 < each.probability <= 1 for each in predicate.arguments)


def test_sentences_of_a_text_are_tagged_one_by_one(trained_srl: TrainedTask) -> None:
    text = "We 777 MOTHER. You 1000 WWW."
    found = predicted(trained_srl, text)
    assert found.words == ("We", "777", "MOTHER", ".", "You", "1000", "WWW", ".")
    assert [each.word for each in found.predicates] == [1, 5]
    for predicate in found.predicates:
        for argument in predicate.arguments:
            assert text[argument.start : argument.end] == argument.text
            words = found.words[argument.first_word : argument.end_word]
            assert " ".join(words) == argument.text


@pytest.mark.parametrize("given", [[1, 5], ["777", "1000"], ["1000", 1], (5, 1, 1)])
def test_predicates_that_are_given_are_not_looked_for(
    trained_srl: TrainedTask, given: list[Any]
) -> None:
    found = predicted(trained_srl, WithPredicates("We 777 MOTHER. You 1000 WWW.", given))
    assert [(each.text, each.word) for each in found.predicates] == [("777", 1), ("1000", 5)]
    assert [each.probability for each in found.predicates] == [None, None]


def test_words_that_are_given_match_in_any_case_and_may_not_occur(trained_srl: TrainedTask) -> None:
    assert [
        each.word for each in predicted(trained_srl, WithPredicates("We GO", ["go"])).predicates
    ] == [1]
    assert predicted(trained_srl, WithPredicates(["we", "see"], ["go"])).predicates == ()


def test_words_have_no_places(trained_srl: TrainedTask) -> None:
    found = predicted(trained_srl, ["we", "777", "MOTHER"])
    assert found.offsets is None
    assert {each.start for each in found.predicates} == {None}
    assert json.loads(json.dumps(found.to_dict()))["predicates"][0]["text"] == "777"


@pytest.mark.parametrize("item", ["", [], "  \n"])
def test_what_has_no_words_has_no_predicates(trained_srl: TrainedTask, item: Any) -> None:
    assert predicted(trained_srl, item).predicates == ()


@pytest.mark.parametrize(
    ("predicates", "message"),
    [
        ([7], "item 1: a predicate is 7 (int); give the number of a word, of which there are 2"),
        ([-1], "item 1: a predicate is -1 (int)"),
        ([True], "item 1: a predicate is True (bool)"),
        ([1.0], "item 1: a predicate is 1.0 (float)"),
        ("go", "item 1: predicates are 'go' (str); give a list"),
    ],
)
def test_predicates_that_cannot_be_are_refused(
    trained_srl: TrainedTask, predicates: Any, message: str
) -> None:
    found = error_of(trained_srl.predict, [WithPredicates("we see", predicates)])
    assert found.startswith(message)


def test_a_line_of_json_may_name_its_predicates() -> None:
    lines = [Line(PLACE, '{"text": "a b", "predicates": [1]}'), Line(PLACE, '{"words": ["a"]}')]
    named, plain = items_of(lines, task_config("srl"), TextSettings(format="jsonl"))
    assert named.asked == WithPredicates("a b", [1])
    assert plain.asked == ["a"]
    [other, _] = items_of(lines, task_config("pos"), TextSettings(format="jsonl"))
    assert other.asked == "a b"


def test_a_prediction_is_a_line_of_text_for_each_predicate(trained_srl: TrainedTask) -> None:
    found = predicted(trained_srl, "We 777 MOTHER")
    assert found.to_text() == "[ARG0 We] [V 777] [ARG2 MOTHER]"


def test_an_argument_may_stand_around_its_predicate_in_text() -> None:
    around = FoundArgument("ARG1", "sold it", 0, 2, None, None, 1.0)
    sold = FoundPredicate("sold", 0, None, None, None, (around,))
    assert RolePrediction(("sold", "it"), (sold,)).to_text() == "[ARG1 [V sold] it]"


def tagged(words: str, tags: str | None = None) -> tuple[RoleSentence, list[TaggedPredicate]]:
    """A sentence whose tags, if there are any, are those beside the word of B-V."""
    names = tuple((tags or "").split())
    found = [TaggedPredicate(names.index("B-V"), None, names, (0.0,) * len(names))] if tags else []
    return RoleSentence(tuple(words.split()), None, PLACE), found


def test_a_line_of_text_is_the_sentence_of_its_predicate() -> None:
    sentences = tagged("We sold", "O B-V"), tagged("Yes ."), tagged("They slept", "O B-V")
    examples, predictions = zip(*sentences, strict=True)
    found = small_task().merge_predictions(ParsedInput(list(examples)), predictions)
    assert found.to_text() == "We [V sold]\nYes .\nThey [V slept]"


def test_the_rest_of_a_predicate_is_not_an_argument() -> None:
    example, prediction = tagged("took it off", "B-V B-ARG1 B-C-V")
    found = small_task().merge_predictions(ParsedInput([example]), [prediction])
    assert [argument.role for argument in found.predicates[0].arguments] == ["ARG1"]


def test_given_propositions_have_no_phrases_yet() -> None:
    given = small_task().parse_input(WithPredicates("We go. You see.", [4]), DEFAULT, PLACE)
    assert [each.propositions for each in given.examples] == [(), (Proposition(1),)]
