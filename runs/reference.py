"""Write the generated pages of docs/reference: `python -m runs.reference`.

Commands come from `--help`, settings from the dataclasses and the docstrings under their fields.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click

from elmokit.cli import elmo
from elmokit.config import (
    LARGEST,
    CharacterEncoderConfig,
    LexiconEncoderConfig,
    ModelConfig,
    Within,
    WordEncoderConfig,
    hints_of,
    tables_of,
)
from elmokit.io.text_files import TextSettings
from elmokit.pretraining.config import PretrainConfig, recipes
from elmokit.tasks.catalogue import CATALOGUE
from elmokit.tasks.config import FILES, TaskConfig

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
DASH = "\N{EN DASH}"
NUMBERS = {int: "integer", float: "number", str: "text", bool: "`true`, `false`"}
MADE = "Made by `python -m runs.reference`"
TABLES = ("corpus", "model", "files", "inputs", "network", "training", "coref")
ENCODERS = {
    "The table `[model.encoder]`": CharacterEncoderConfig,
    "The encoder of a word-input model": WordEncoderConfig,
    "The encoder of ELMoForManyLangs": LexiconEncoderConfig,
}
TASK_HEADINGS = {
    "inputs": "What the network reads",
    "network": "The network",
    "training": "How a task is trained",
    "coref": "Spans and antecedents",
}


def commands_page() -> str:
    """The help of `elmo` and of each of its commands, as one Markdown page."""
    parts = ["# Commands", "", f"{MADE} from `--help`.", ""]
    for title, command in commands("elmo", elmo):
        context = click.Context(
            command, info_name=title, terminal_width=100, help_option_names=["-h", "--help"]
        )
        parts += [f"## {title}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


def commands(title: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and those inside it, each with its full name."""
    yield title, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(f"{title} {name}", inner)


def settings_page() -> str:
    """The settings of a pretraining run, of a model and of a task, as one Markdown page."""
    run, task = tables_of(PretrainConfig), tables_of(TaskConfig)
    names = {field: name for name, field in FILES.items()}
    parts = [
        "# Settings",
        f"{MADE} from the dataclasses that hold them. {DASH}: not set, `None` in Python.",
        "## A pretraining run",
        "One TOML file, the `RUN` of `elmo pretrain RUN`; `--set training.rows=64` changes one "
        "setting, `--set training.epochs=` takes one away. Only `[model]` and how long to train "
        "have no default.",
    ]
    for name in ("corpus", "training", "logging"):
        parts += [f"### The table `[{name}]`", docs_of(run[name])[""], settings(run[name], name)]
    parts += ["### Outside the tables", settings(PretrainConfig, fields_named=["output"])]
    parts += ["### What the recipes set", recipe_table()]
    parts += [
        "## A model",
        "The tables `[model]` and `[model.encoder]` of a run, and the `config.json` of a model.",
        "### The table `[model]`",
        settings(ModelConfig, "model"),
    ]
    for heading, kind in ENCODERS.items():
        parts += [f"### {heading}", docs_of(kind)[""], settings(kind, "model.encoder")]
    parts += [
        "## A task",
        "`elmo task train NAME --set training.epochs=5` changes one setting; so does `settings=` "
        "of `elmokit.task_config`.",
        "### How files of examples are read",
        settings(TextSettings, "files", list(names), names),
    ]
    for name in ("inputs", "network", "training", "coref"):
        parts += [f"### {TASK_HEADINGS[name]}", docs_of(task[name])[""], settings(task[name], name)]
    for preset in ("small", "paper"):
        parts += [f"### What the preset `{preset}` sets", preset_table(preset)]
    return "\n\n".join(parts) + "\n"


def settings(
    kind: type,
    prefix: str = "",
    fields_named: Sequence[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The settings of a dataclass, or some of them, by dotted name; `names` has other names."""
    docs, hints = docs_of(kind), hints_of(kind)
    by_name: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    rows = [
        (
            f"`{'.'.join(filter(None, [prefix, names.get(name, name)]))}`",
            default_of(by_name[name], prefix),
            kind_of(hints[name]),
            docs[name],
        )
        for name in fields_named or by_name
    ]
    return table(("setting", "default", "value", "meaning"), rows)


def docs_of(kind: type) -> dict[str, str]:
    """What the docstring under each field says; that of the class itself has the name ""."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found = {"": (ast.get_docstring(node) or "").split("\n\n")[0]}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = " ".join(str(text.value.value).split())
    inherited = [docs_of(base) for base in kind.__bases__ if base.__module__ == kind.__module__]
    return {name: text for one in [*inherited, found] for name, text in one.items()}


def default_of(field: Field[Any], table: str) -> str:
    """What a setting is where nothing is given."""
    if (table, field.name) == ("files", "tokenizer"):
        return DASH  # TaskConfig has that of the model
    if field.default_factory is not MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    if field.default is MISSING:
        return "required"
    return DASH if field.default is None else f"`{json.dumps(field.default)}`"


def kind_of(kind: Any) -> str:
    """What a setting may be, out of its annotation."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [limits_of(part) for part in parts[1:] if isinstance(part, Within)]
        return " ".join([kind_of(parts[0]), *filter(None, limits)])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(part)}`" for part in parts)
    if origin in (Union, UnionType):
        kinds = [kind_of(part).split(", ") for part in parts if part is not NoneType]
        return ", ".join(dict.fromkeys(word for words in kinds for word in words))
    if origin is tuple:
        many = parts[-1] is Ellipsis
        inner = [kind_of(part) for part in (parts[:1] if many else parts)]
        return f"[{', '.join(inner)}{', …' if many else ''}]"
    return NUMBERS.get(kind, "a table")


def limits_of(within: Within) -> str:
    """Between which numbers a setting lies."""
    bounds = {"≥": within.least, ">": within.above, "<": within.below, "≤": within.most}
    shown = [f"{sign} {bound}" for sign, bound in bounds.items() if abs(bound) < LARGEST]
    return " and ".join(shown) + (", `inf`" if within.infinite else "")


def recipe_table() -> str:
    """What each recipe sets."""
    values = {name: tomllib.loads(path.read_text("utf-8")) for name, path in recipes().items()}
    return compared({name: flat(one) for name, one in values.items()}, "recipe")


def preset_table(preset: Any) -> str:
    """What a preset sets for each task."""
    columns = {name: flat(dict(task.presets[preset])) for name, task in CATALOGUE.items()}
    return compared(columns, preset)


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables by dotted name."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inside = isinstance(value, Mapping)
        found |= flat(value, f"{before}{name}.") if inside else {f"{before}{name}": value}
    return found


def compared(columns: Mapping[str, Mapping[str, Any]], corner: str) -> str:
    """A table of settings by row, and who sets them by column."""
    names = {name for column in columns.values() for name in column}
    order = sorted(names, key=lambda name: (TABLES.index(name.split(".")[0]), name))
    rows = [(f"`{name}`", *(shown(one.get(name)) for one in columns.values())) for name in order]
    return table((f"`{corner}`", *(f"`{name}`" for name in columns)), rows)


def shown(value: Any) -> str:
    """A value as a cell has it."""
    return "" if value is None else json.dumps(value).strip('"')


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


PAGES = {"commands.md": commands_page, "settings.md": settings_page}

if __name__ == "__main__":
    for page, made in PAGES.items():
        (FOLDER / page).write_text(made(), encoding="utf-8")
