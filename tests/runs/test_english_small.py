from small_models import COUNTED, small_saved_model

from runs import english_small
from runs.english_small import commands, make_card

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
TABLES = {name: f"# Title of {name}\n\n## Part\n\n| {name} |" for name in commands("model")}


def test_every_table_finds_its_place():
    saved = small_saved_model(vocabulary=COUNTED, softmax_words=len(COUNTED))
    card = make_card(saved._replace(card=CARD), TABLES)
    for name in TABLES:
        assert f"| {name} |" in card
    assert "| steps | 5 |" in card
    assert "12 words" in card
    assert "{" not in card


def test_a_table_is_made_once_for_its_weights(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"weights": {"sha256": "0123456789"}}')
    monkeypatch.setattr(
        english_small, "commands", lambda model: {"one": ["calendar", model], "two": ["this"]}
    )
    monkeypatch.setattr(english_small, "RECIPE", str(tmp_path / "config.json"))
    results = tmp_path / "results"
    results.mkdir()
    recipe = english_small.sha256_of(tmp_path / "config.json")
    (results / "one-01234567.md").write_text("first\n")
    (results / f"two-{recipe[:8]}.md").write_text("second\n")
    assert english_small.measure(tmp_path, tmp_path) == {"one": "first", "two": "second"}
    (results / f"two-{recipe[:8]}.md").unlink()
    assert english_small.measure(tmp_path, tmp_path)["two"].startswith("The Zen of Python")
