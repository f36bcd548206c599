"""What is probed: the layers of a model, or static vectors as if they were its only one."""

from __future__ import annotations

from elmokit.analysis.comparison import layers_of
from elmokit.embedder import Embedder
from elmokit.static.vectors import StaticVectors

Source = Embedder | StaticVectors


def layer_count(source: Source) -> int:
    """How many layers its vectors have."""
    return 1 if isinstance(source, StaticVectors) else source.config.layer_count


def layer_names(*sources: Source) -> tuple[str, ...]:
    """What the layers of models are called in a report; their average is none of them."""
    models = [source for source in sources if isinstance(source, Embedder)]
    return tuple(name for one in models for name, _ in layers_of(one)[: layer_count(one)])
