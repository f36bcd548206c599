"""ELMo in scikit-learn: `from elmokit.adaptors.sklearn import ElmoVectorizer`.

```
classifier = make_pipeline(ElmoVectorizer(), StandardScaler(), LogisticRegression())
classifier.fit(["Win a prize!", "See you at six."], ["spam", "ham"])
classifier.predict(["Claim your prize"])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.adaptors.text_reader import (
    MAX,
    MEAN,
    LoadedModel,
    Spec,
    Tokenizer,
    absolute,
    check_checksum,
    check_there,
    checked_texts,
    load_shared,
    shared_reader,
)
from elmokit.config import ModelConfig, Precision, check_choice, check_size
from elmokit.errors import InputError
from elmokit.inference.layers import LayerChoice, Vectors

try:
    from sklearn.base import BaseEstimator, TransformerMixin  # type: ignore[import-untyped]
except ImportError as error:
    raise InputError(
        f'scikit-learn cannot be imported ({error}); run: pip install "elmokit[sklearn]"'
    ) from error

Pool = Literal["mean", "max", "mean+max"]

POOLS = {"mean": MEAN, "max": MAX}
REMEDY = "set_params(model=…) names the right one"


class ElmoVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns texts into vectors (texts, size), for any estimator to learn from.

    There is nothing to fit: `transform` may be called at once. What `fit` keeps is the checksum of
    the model, so that another one is refused later. Texts are read once in a process: copies of the
    vectorizer, those of a grid search among them, find the vectors of any layer and pool there.
    A pickle names the model, by its whole path if it is a folder, and does not hold it.

    Args:
        model: A model folder, the name of a model, or a pair of options and weights; None for the
            bundled model of English.
        layers: "average", "top", a number (0 is the token layer), or "all", one behind the other.
        pool: Over the words of a text: "mean", "max", or "mean+max", one behind the other.
        tokenizer: "default", the one that the model was trained with; "spaces" splits texts as
            TF-Hub's module does; or a function that gives the words of a text.
        batch_size: How many texts are read at once; those of like length go together.
        precision: "exact" or "fast", as in `Embedder`.
        device: Where to compute; None for the CPU.
        cache_megabytes: How much is remembered of texts; 0 for nothing.

    Attributes:
        model_checksum_: Of the model that it was fitted with.
    """

    def __init__(
        self,
        model: Spec = None,
        *,
        layers: str | int = "average",
        pool: Pool = "mean",
        tokenizer: Tokenizer = "default",
        batch_size: int = 1024,
        precision: Precision = "exact",
        device: str | None = None,
        cache_megabytes: int = 512,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pool = pool
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.precision = precision
        self.device = device
        self.cache_megabytes = cache_megabytes

    def fit(self, X: Sequence[str], y: object = None) -> ElmoVectorizer:
        """Check the texts and the settings, and keep which model it is."""
        del y
        checked_texts(X)
        loaded = self._load()
        self._parts(loaded.embedder.config)
        self.model_checksum_ = loaded.checksum
        return self

    def transform(self, X: Sequence[str]) -> Vectors:
        """The vectors (texts, size) of texts, float32; zeros for a text without words."""
        texts = checked_texts(X)
        check_size("batch_size", self.batch_size)
        embedder = self._same_model().embedder
        parts = self._parts(embedder.config)
        reader = shared_reader(embedder, self.tokenizer, self.cache_megabytes)
        vectors = np.empty((len(texts), len(parts), embedder.vector_size), np.float32)
        for start in range(0, len(texts), self.batch_size):
            batch = slice(start, start + self.batch_size)
            for text, pooled in zip(vectors[batch], reader.pooled(texts[batch]), strict=True):
                text[:] = [pooled[part.pool, part.row] for part in parts]
        return vectors.reshape(len(texts), -1)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """What each number of a vector is: pool, layer and place, as in "mean_layer1_0"."""
        del input_features  # texts have no features that could have names
        config = self._same_model().embedder.config
        places = range(config.vector_size)
        names = [f"{part.name}_{place}" for part in self._parts(config) for place in places]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # Only here: `get_params`, and so `clone`, give the model as it was given.
        return {**super().__getstate__(), "model": absolute(self.model)}

    def _load(self) -> LoadedModel:
        check_there(self.model, REMEDY, was_there=hasattr(self, "model_checksum_"))
        return load_shared(self.model, self.device, self.precision)

    def _same_model(self) -> LoadedModel:
        """The model, which must be that of `fit` if there was one."""
        loaded = self._load()
        expected = getattr(self, "model_checksum_", None)
        check_checksum(loaded, expected, self.model, REMEDY)
        return loaded

    def _parts(self, config: ModelConfig) -> list[FeaturePart]:
        """What stands side by side in a vector."""
        check_choice("pool", self.pool, get_args(Pool))
        rows = rows_of(self.layers, config)
        pools = self.pool.split("+")
        return [
            FeaturePart(POOLS[pool], row, f"{pool}_{name}")
            for pool in pools
            for name, row in rows.items()
        ]


class FeaturePart(NamedTuple):
    """A stretch of a vector: where it is in what `TextReader.pooled` gives, and its name."""

    pool: int
    row: int
    name: str


def rows_of(layers: str | int, config: ModelConfig) -> dict[str, int]:
    """The rows of layers in what `TextReader.pooled` gives, by name."""
    count = config.layer_count
    name = LayerChoice(layers, count).name
    if name == "average":
        return {"average": count}
    return {f"layer{n}": n for n in range(count) if name in ("all", str(n))}
