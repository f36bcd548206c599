"""The models and vectors shipped inside the package: a folder each, with its card."""

from __future__ import annotations

from pathlib import Path

BUNDLED = Path(__file__).parent
"""Where they are on this machine, each under its name."""
ENGLISH_SMALL = "english-small"
BUNDLED_MODELS = (ENGLISH_SMALL,)
ENGLISH_SMALL_WORD2VEC = "english-small-word2vec"
KOREAN_SMALL = "korean-small"
KOREAN_SMALL_WORD2VEC = "korean-small-word2vec"


def is_bundled(model: str | Path) -> bool:
    """Whether this is the name of a bundled model, and of nothing here."""
    return str(model).lower() in BUNDLED_MODELS and not Path(model).exists()
