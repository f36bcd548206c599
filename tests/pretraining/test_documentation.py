from __future__ import annotations

import json
import re
import tomllib
from dataclasses import MISSING, Field, fields
from pathlib import Path

import pytest

from elmokit.config import CharacterEncoderConfig, ModelConfig, tables_of
from elmokit.pretraining.config import CorpusConfig, LoggingConfig, PretrainConfig, TrainingConfig
from elmokit.pretraining.run import RECIPE

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "pretraining.md").read_text(encoding="utf-8")
NONE = "\N{EN DASH}"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def rows_after(heading: str) -> dict[str, str]:
    """Settings and their defaults, from the first table after a line that begins so."""
    _, found, rest = PAGE.partition(f"\n{heading}")
    assert found, heading
    table = rest[rest.index("\n| setting |") :].lstrip().split("\n\n")[0]
    return {name: default for name, default, _ in ROW.findall(table)}


def default_of(field: Field) -> str:
    if field.default_factory is not MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    if field.default is MISSING:
        return "required"
    return NONE if field.default is None else f"`{json.dumps(field.default)}`"


@pytest.mark.parametrize(
    ("heading", "config", "elsewhere"),
    [
        ("`[corpus]`", CorpusConfig, set()),
        ("`[training]`", TrainingConfig, set()),
        ("`[logging]`", LoggingConfig, set()),
        ("`[model]`", ModelConfig, {"softmax_words"}),  # the vocabulary tells
        ("`[model.encoder]`", CharacterEncoderConfig, set()),
        ("Outside the tables", PretrainConfig, {"model", *tables_of(PretrainConfig)}),
    ],
)
def test_every_setting_is_in_the_page_with_its_default(heading, config, elsewhere):
    settings = [field for field in fields(config) if field.name not in elsewhere]
    assert rows_after(heading) == {field.name: default_of(field) for field in settings}


def test_every_run_in_the_page_is_a_run():
    runs = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert runs
    for run in runs:
        PretrainConfig.from_dict(tomllib.loads(run))


def test_every_link_inside_the_page_has_its_heading():
    headings = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert links
    assert links <= headings


def test_the_cost_of_the_paper_is_what_its_script_prints(monkeypatch, capsys):
    monkeypatch.syspath_prepend(REPOSITORY)
    from runs.cost_of_the_paper import main

    main()
    table = capsys.readouterr().out.split("\n\n")[1]
    assert table in PAGE


def test_the_recipe_of_fine_tuning_is_the_one_in_the_page():
    text = re.sub(r"\s+", " ", PAGE[PAGE.index("\n## Fine-tuning") :])
    described = {"optimiser": "adamw", "schedule": "linear", "epochs": 1, "rows": 32}
    assert RECIPE | described == RECIPE
    assert (
        f"rate of {RECIPE['learning_rate']:g} that falls to nothing, {RECIPE['rows']} rows" in text
    )
