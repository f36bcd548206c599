from __future__ import annotations

from pathlib import Path

import pytest

from elmokit.errors import ElmoError
from runs.spam_data import (
    Messages,
    Result,
    Row,
    folds_of,
    line_of,
    parser_of,
    parts_of,
    read_messages,
    split,
    without_duplicates,
)

SPAM = """\
v1,v2,,,
ham,"Go on, crazy..",,,
spam,Win \xa31000,,,
ham,half,"the rest",,
ham,"Go on, crazy..",,,
spam,last,,,
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "spam.csv"
    path.write_bytes(SPAM.encode("latin-1"))
    return path


def test_messages_are_the_first_two_columns_in_their_order(data):
    assert read_messages(data) == Messages(
        ["Go on, crazy..", "Win £1000", "half", "Go on, crazy..", "last"], [0, 1, 0, 0, 1]
    )


def test_of_duplicates_the_first_stays():
    messages = Messages(["a", "b", "a", "c"], [0, 0, 1, 1])
    assert without_duplicates(messages) == Messages(["a", "b", "c"], [0, 0, 1])


def test_the_first_four_fifths_are_trained_on():
    train, test = split(Messages([str(number) for number in range(5572)], [0] * 5572))
    assert (len(train.texts), len(test.texts)) == (4457, 1115)
    assert (train.texts[-1], test.texts[0]) == ("4456", "4457")


def test_every_training_message_is_in_one_fold_of_the_tests():
    messages = Messages(list("abcde"), [0, 1, 0, 1, 0])
    parts = folds_of(messages, 2)
    assert parts[0] == (Messages(["b", "d"], [1, 1]), Messages(["a", "c", "e"], [0, 0, 0]))
    assert sorted(text for _, test in parts for text in test.texts) == messages.texts
    assert all(not set(train.texts) & set(test.texts) for train, test in parts)


def test_folds_never_see_the_test(data):
    arguments = parser_of("").parse_args([str(data), "--folds", "2"])
    seen = {text for part in parts_of(arguments) for messages in part for text in messages.texts}
    assert "last" not in seen
    assert parts_of(parser_of("").parse_args([str(data)]))[0][1].texts == ["last"]


def test_a_single_result_has_no_deviation():
    line = line_of(Row("a", (4, 1), "", [Result(1.0, 2.0, 3000.0)]))
    assert line == "| a | 4 + 1 |  | 100.00 | 100.00 | 2.0 s | 3,000.0 s |"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("text,label\n", "has the columns"),
        ("v1,v2\nham,a\nmaybe,b\n", "message 2: does not begin with ham or spam"),
        ("v1,v2\nham\n", "message 1"),
    ],
)
def test_other_files_are_one_line(tmp_path, content, message):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(ElmoError, match=message):
        read_messages(path)


def test_an_absent_file_is_one_line(tmp_path):
    with pytest.raises(ElmoError, match="cannot be read"):
        read_messages(tmp_path / "absent.csv")
