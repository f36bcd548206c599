"""Files of examples: read them, and see what is said of those that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import error_of

from elmokit.io.text_files import TextSettings
from elmokit.tasks.config import Kind
from elmokit.tasks.files.examples import read_examples
from elmokit.text.tokenizer import Tokenizer, load_tokenizer

WHITESPACE, DEFAULT = load_tokenizer("whitespace"), load_tokenizer("default")


def read(
    kind: Kind, path: str | Path, tokenizer: Tokenizer = WHITESPACE, **settings: Any
) -> list[Any]:
    """The examples of a file, by the names that `TextSettings` has for settings."""
    return read_examples(kind, path, TextSettings(**settings), tokenizer)


def said_of(
    kind: Kind, path: str | Path, tokenizer: Tokenizer = WHITESPACE, **settings: Any
) -> str:
    """What is said of a file that cannot be read, after its name."""
    return error_of(read, kind, path, tokenizer, after=path, **settings)
