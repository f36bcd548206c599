from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.tasks.examples import Labels
from elmokit.tasks.scores import Counts, Score, score_labels, score_spans, score_words

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
ANIMALS = Labels(("cat", "dog", "owl"))
EXPECTED = ["cat", "cat", "cat", "dog", "dog", "owl"]
PREDICTED = ["cat", "dog", "dog", "dog", "cat", "cat"]


def tags(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def test_accuracy_is_the_share_of_labels_that_are_right():
    score = score_labels(ANIMALS, EXPECTED, PREDICTED)
    assert score.main == 2 / 6
    assert (score.correct, score.total) == (2, 6)


def test_confusion_has_a_row_for_what_is_right_and_a_column_for_what_was_predicted():
    score = score_labels(ANIMALS, EXPECTED, PREDICTED)
    assert score.matrix == ((1, 2, 0), (1, 1, 0), (1, 0, 0))
    assert score.confusions() == [("cat", "dog", 2), ("dog", "cat", 1), ("owl", "cat", 1)]


def test_precision_recall_and_f1_of_each_class():
    by_class = score_labels(ANIMALS, EXPECTED, PREDICTED).by_class
    assert by_class == {"cat": Counts(1, 3, 3), "dog": Counts(1, 3, 2), "owl": Counts(0, 0, 1)}
    dog = by_class["dog"]
    assert (dog.precision, dog.recall) == (1 / 3, 1 / 2)
    assert dog.f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))


def test_counts_of_sets_add_up():
    pairs = [({1, 2}, {2, 3, 4}), ({5}, {5}), (set(), set())]
    assert Counts.of_sets(pairs) == Counts(1, 3, 2) + Counts(1, 1, 1) == Counts(2, 4, 3)


def test_share_of_nothing_is_zero():
    nothing = Counts(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)


def test_macro_f1_leaves_out_classes_that_do_not_occur():
    score = score_labels(ANIMALS, ["cat", "dog"], ["cat", "cat"])
    assert score.macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert score_labels(ANIMALS, ["cat"], ["cat"]).macro_f1 == 1.0


def test_words_of_all_sentences_count_alike():
    score = score_words(ANIMALS, tags("cat dog owl", "owl"), tags("cat dog owl", "dog"))
    assert score.main == 3 / 4
    assert score.describe() == "accuracy 75.00% (3 of 4 words), macro F1 77.78%"


def test_entity_is_right_only_whole_and_with_its_type():
    expected = tags("B-PER I-PER O B-LOC O B-ORG", "O B-LOC")
    predicted = tags("B-PER O O B-LOC O B-LOC", "B-LOC O")
    score = score_spans(expected, predicted)
    assert score.by_type == {
        "LOC": Counts(correct=1, predicted=3, expected=2),
        "ORG": Counts(correct=0, predicted=0, expected=1),
        "PER": Counts(correct=0, predicted=1, expected=1),
    }
    assert score.total == Counts(correct=1, predicted=4, expected=4)
    assert score.main == 0.25


def test_same_place_in_another_sentence_is_another_entity():
    assert score_spans(tags("B-LOC", "O"), tags("O", "B-LOC")).main == 0.0


@pytest.mark.parametrize(
    ("expected", "predicted", "f1"),
    [
        # A strict reader of BIO drops every I that does not continue from a B, and finds less here.
        ("B-PER I-PER", "I-PER I-PER", 1.0),
        ("O B-PER", "O I-PER", 1.0),
        ("B-PER B-LOC", "B-PER I-LOC", 1.0),
        # An I of another type ends what was before, for strict readers and for lenient ones.
        ("B-PER I-PER I-PER", "B-PER I-LOC I-PER", 0.0),
        # A strict reader of IOBES drops what has no end, or no beginning.
        ("B-PER E-PER", "B-PER I-PER", 1.0),
        ("S-PER O", "E-PER O", 1.0),
        ("B-PER E-PER", "S-PER E-PER", 0.0),
    ],
)
def test_illegal_tags_count_as_in_the_shared_task(expected: str, predicted: str, f1: float):
    assert score_spans(tags(expected), tags(predicted)).main == f1
    assert score_spans(tags(predicted), tags(expected)).main == f1


@pytest.mark.filterwarnings("ignore")  # about shares of nothing
def test_entities_are_scored_as_seqeval_scores_them():
    metrics = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    tag = st.sampled_from(["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y"])
    words = st.lists(st.tuples(tag, tag), min_size=1, max_size=8)

    @given(sentences=st.lists(words, min_size=1, max_size=4))
    @quick
    def check(sentences: list[list[tuple[str, str]]]) -> None:
        expected = [[right for right, _ in words] for words in sentences]
        predicted = [[guess for _, guess in words] for words in sentences]
        total = score_spans(expected, predicted).total
        assert total.f1 == pytest.approx(metrics.f1_score(expected, predicted))
        assert total.precision == pytest.approx(metrics.precision_score(expected, predicted))
        assert total.recall == pytest.approx(metrics.recall_score(expected, predicted))

    check()


def scores() -> Sequence[Score]:
    return [
        score_labels(ANIMALS, EXPECTED, PREDICTED, unit="pairs"),
        score_words(ANIMALS, tags("cat dog"), tags("cat owl")),
        score_spans(tags("B-PER O B-LOC"), tags("B-PER O O")),
        score_spans(tags("O"), tags("O")),
    ]


def test_every_score_goes_through_json_with_its_main_number():
    for score in scores():
        values = json.loads(json.dumps(score.to_dict()))
        assert values == score.to_dict()
        assert score.main in (values.get("accuracy"), values.get("f1"))


def test_every_score_is_described_in_one_line():
    described = [score.describe() for score in scores()]
    assert described == [
        "accuracy 33.33% (2 of 6 pairs), macro F1 24.44%",
        "accuracy 50.00% (1 of 2 words), macro F1 33.33%",
        "F1 66.67% (precision 100.00%, recall 50.00%); 1 right of 1 predicted and 2 there",
        "F1 0.00% (precision 0.00%, recall 0.00%); 0 right of 0 predicted and 0 there",
    ]


def test_table_has_a_row_for_each_class_or_type():
    labels, _, entities, _ = scores()
    assert labels.table().splitlines() == [
        "label  precision  recall      F1  expected  predicted  correct",
        "cat       33.33%  33.33%  33.33%         3          3        1",
        "dog       33.33%  50.00%  40.00%         2          3        1",
        "owl        0.00%   0.00%   0.00%         1          0        0",
    ]
    assert entities.table().splitlines() == [
        "type  precision   recall       F1  expected  predicted  correct",
        "LOC       0.00%    0.00%    0.00%         1          0        0",
        "PER     100.00%  100.00%  100.00%         1          1        1",
        "all     100.00%   50.00%   66.67%         2          1        1",
    ]


def test_confusions_are_shown_as_a_matrix():
    assert score_labels(ANIMALS, EXPECTED, PREDICTED).confusion_table().splitlines() == [
        r"right \ predicted  cat  dog  owl",
        "cat                  1    2    0",
        "dog                  1    1    0",
        "owl                  1    0    0",
    ]


def test_label_that_the_model_does_not_know_is_refused():
    with pytest.raises(
        InputError, match="label 'emu' is unknown; the training data have 'cat', 'dog'"
    ):
        score_labels(ANIMALS, ["emu"], ["cat"])
