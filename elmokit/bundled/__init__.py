"""The models and vectors shipped inside the package: a folder each, with its card."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

BUNDLED = Path(__file__).parent  # where they are on this machine, each under its name
ENGLISH_SMALL = "english-small"
KOREAN_SMALL = "korean-small"
BUNDLED_MODELS = (ENGLISH_SMALL, KOREAN_SMALL)
ENGLISH_SMALL_WORD2VEC = "english-small-word2vec"
KOREAN_SMALL_WORD2VEC = "korean-small-word2vec"
BUNDLED_VECTORS = (ENGLISH_SMALL_WORD2VEC, KOREAN_SMALL_WORD2VEC)
VERSIONS = BUNDLED / "versions.json"
"""Every version that a bundled model has had, by the fingerprint of its weights."""


def is_bundled(name: str | Path, names: tuple[str, ...] = BUNDLED_MODELS) -> bool:
    """Whether this is the name of a bundled model, or one of `names`, and of nothing here."""
    return str(name).lower() in names and not Path(name).exists()


def version_of(fingerprint: str) -> str:
    """The version of a bundled model, "english-small 2", by `Embedder.fingerprint`; or nothing."""
    return known_versions().get(fingerprint, "")


@cache
def known_versions() -> dict[str, str]:
    """What `VERSIONS` holds."""
    versions: dict[str, str] = json.loads(VERSIONS.read_text(encoding="utf-8"))
    return versions
