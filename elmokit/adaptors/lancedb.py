"""LanceDB: the embedding function `elmokit`, for tables that embed their texts themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elmokit.adaptors.text_reader import absolute, fetched, load_shared
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Vectors
from elmokit.system import import_extra

embeddings: Any = import_extra("lancedb.embeddings", "lancedb", "LanceDB")


@embeddings.register("elmokit")
class ElmoFunction(embeddings.TextEmbeddingFunction):  # type: ignore[misc]
    """The vectors of `Embedder.encode`: of each text the mean over its words.

    A table names the model, by its absolute path if it is a folder, and does not hold it; none is
    fetched for it. A program that opens the table imports this module first.
    """

    model: str | list[str] | None = None
    layers: str | int = 0
    device: str | None = None
    max_retries: int = 0  # what fails here would fail again

    def ndims(self) -> int:
        """Size of a vector."""
        return self._embedder().vector_size

    def generate_embeddings(self, texts: Sequence[str], *_: Any, **__: Any) -> list[Vectors]:
        """The vectors of texts."""
        return list(self._embedder().encode(list(texts), self.layers))

    def safe_model_dump(self) -> dict[str, Any]:
        """What a table stores of this function."""
        return {**super().safe_model_dump(), "model": absolute(self.model)}

    def _embedder(self) -> Embedder:
        return load_shared(fetched(self.model), self.device).embedder
