from pathlib import Path

import pytest

from elmokit.errors import ElmoError
from runs.spam_data import Messages, parser_of, parts_of, read_messages, split

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


def test_the_first_four_fifths_are_trained_on():
    train, test = split(Messages([str(number) for number in range(5572)], [0] * 5572))
    assert (len(train.texts), len(test.texts)) == (4457, 1115)
    assert (train.texts[-1], test.texts[0]) == ("4456", "4457")


def test_folds_never_see_the_test(data):
    arguments = parser_of("").parse_args([str(data), "--folds", "2"])
    seen = {text for part in parts_of(arguments) for messages in part for text in messages.texts}
    assert "last" not in seen
    assert parts_of(parser_of("").parse_args([str(data)]))[0][1].texts == ["last"]


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
