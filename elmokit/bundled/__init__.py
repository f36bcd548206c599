"""The models and vectors shipped inside the package: a folder each, with its card."""

from __future__ import annotations

from pathlib import Path

BUNDLED = Path(__file__).parent  # where they are on this machine, each under its name
ENGLISH_SMALL = "english-small"
KOREAN_SMALL = "korean-small"
BUNDLED_MODELS = (ENGLISH_SMALL, KOREAN_SMALL)
ENGLISH_SMALL_WORD2VEC = "english-small-word2vec"
KOREAN_SMALL_WORD2VEC = "korean-small-word2vec"
BUNDLED_VECTORS = (ENGLISH_SMALL_WORD2VEC, KOREAN_SMALL_WORD2VEC)


def is_bundled(name: str | Path, names: tuple[str, ...] = BUNDLED_MODELS) -> bool:
    """Whether this is the name of a bundled model, or one of `names`, and of nothing here."""
    return str(name).lower() in names and not Path(name).exists()
