"""Adaptors whose library is not installed are left out: their examples could not run."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [
    f"elmokit/adaptors/{name}.py"
    for name in ("sentence_transformers", "spacy")
    if find_spec(name) is None
]
