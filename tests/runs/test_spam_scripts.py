"""Both scripts from end to end, on a few messages and a tiny model."""

import os
from pathlib import Path

import pytest
from helpers import write
from small_models import write_language_model

from runs.spam_data import Messages, parser_of, parts_of, read_messages

MESSAGES = [("spam", "win a prize now"), ("ham", "see you at six"), ("ham", "on my way")] * 5


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    lines = ["v1,v2,,,", *(f"{label},{text} {n}" for n, (label, text) in enumerate(MESSAGES))]
    (tmp_path / "spam.csv").write_text("\n".join(lines))
    return [str(tmp_path / "spam.csv"), "--model", write_language_model(tmp_path / "model")]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(("head", "epochs"), [("tutorial", 1), ("pooled", 15)])
def test_keras_prints_a_row_beside_the_tutorials(arguments, head, epochs, capsys):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    pytest.importorskip("keras", reason="Keras is an extra: elmokit[keras]")
    from runs.spam_keras import main

    main([*arguments, "--head", head, "--seeds", "2"])

    lines = capsys.readouterr().out.splitlines()
    assert "98.03 | 98.03 | 1,508.0 s | 1,508.0 s |" in lines[2]
    assert lines[3].startswith(f"| Keras, {head} | 12 + 3 | {epochs} | ")
    assert " ± " in lines[3]
    assert "commit" in lines[-1]
    assert f"--head {head} --seeds 2" in lines[-1]


def test_scikit_learn_prints_a_row_and_with_folds_all_choices(arguments, capsys):
    pytest.importorskip("sklearn", reason="scikit-learn is an extra: elmokit[sklearn]")
    from runs.spam_sklearn import main

    main(arguments)
    assert "| scikit-learn, all, mean+max | 12 + 3 | " in capsys.readouterr().out
    main([*arguments, "--folds", "2", "--deduplicate"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| scikit-learn, ")]) == 9


SPAM = """\
v1,v2,,,
ham,"Go on, crazy..",,,
spam,Win \xa31000,,,
ham,half,"the rest",,
ham,"Go on, crazy..",,,
spam,last,,,
"""


def test_messages_are_the_first_two_columns_and_folds_never_see_the_test(tmp_path):
    data = write(tmp_path / "spam.csv", SPAM.encode("latin-1"))
    texts = ["Go on, crazy..", "Win £1000", "half", "Go on, crazy..", "last"]
    assert read_messages(data) == Messages(texts, [0, 1, 0, 0, 1])
    folds = parts_of(parser_of("").parse_args([str(data), "--folds", "2"]))
    assert "last" not in {text for part in folds for messages in part for text in messages.texts}
    assert parts_of(parser_of("").parse_args([str(data)]))[0][1].texts == ["last"]
