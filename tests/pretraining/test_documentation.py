from __future__ import annotations

import re
import tomllib

from helpers import ROOT

from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.run import RECIPE
from runs.cost_of_the_paper import main

DOCS = ROOT / "docs"


def test_every_run_in_the_pages_is_a_run():
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    runs = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert runs
    for run in runs:
        PretrainConfig.from_dict(tomllib.loads(run))


def test_the_cost_of_the_paper_is_what_its_script_prints(capsys):
    main()
    table = capsys.readouterr().out.split("\n\n")[1]
    assert table in (DOCS / "background" / "perplexity.md").read_text(encoding="utf-8")


def test_the_recipe_of_fine_tuning_is_the_one_in_the_page():
    page = (DOCS / "how-to" / "fine-tune.md").read_text(encoding="utf-8")
    described = {"optimiser": "adamw", "schedule": "linear", "epochs": 1, "rows": 32}
    assert RECIPE | described == RECIPE
    rate = f"AdamW with a rate of {RECIPE['learning_rate']:g} that falls to nothing"
    assert f"{rate}, {RECIPE['rows']} rows" in page
