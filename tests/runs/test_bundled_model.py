import pytest
from small_models import COUNTED, small_saved_model

from runs import bundled_model
from runs.bundled_model import NAMES, commands, make_card

CARD = """# A model

| | |
|---|---|
| LSTM | 2 layers |

## Training

| | |
|---|---|
| steps | 5 |
| held-out text | perplexity 7 |
"""


@pytest.mark.parametrize("name", NAMES)
def test_every_table_finds_its_place(name):
    saved = small_saved_model(vocabulary=COUNTED, softmax_words=len(COUNTED))
    tables = {table: f"# Title\n\n## Part\n\n| {table} |" for table in commands(name, "model")}
    card = make_card(name, saved._replace(card=CARD), tables)
    for table in tables:
        assert f"| {table} |" in card
    assert "| steps | 5 |" in card
    assert "softmax of 12 " in card
    assert "{" not in card


def test_a_table_is_made_once_for_its_weights(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"weights": {"sha256": "0123456789"}}')
    monkeypatch.setattr(
        bundled_model, "commands", lambda name, model: {"one": ["calendar", model], "two": ["this"]}
    )
    monkeypatch.setattr(bundled_model, "recipe", lambda name: tmp_path / "config.json")
    results = tmp_path / "results"
    results.mkdir()
    recipe = bundled_model.sha256_of(tmp_path / "config.json")
    (results / "one-01234567.md").write_text("first\n")
    (results / f"two-{recipe[:8]}.md").write_text("second\n")
    assert bundled_model.measure("english-small", tmp_path, tmp_path) == {
        "one": "first",
        "two": "second",
    }
    (results / f"two-{recipe[:8]}.md").unlink()
    assert bundled_model.measure("english-small", tmp_path, tmp_path)["two"].startswith(
        "The Zen of Python"
    )
