"""ELMo in scikit-learn: `from elmokit.adaptors.sklearn import ElmoVectorizer`.

```
classifier = make_pipeline(ElmoVectorizer(), StandardScaler(), LogisticRegression())
classifier.fit(["Win a prize!", "See you at six."], ["spam", "ham"])
classifier.predict(["Claim your prize"])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.adaptors.tensorflow_hub import Spec
from elmokit.adaptors.text_reader import (
    MAX,
    MEAN,
    LoadedModel,
    Tokenizer,
    absolute,
    checked_texts,
    load_shared,
    shared_reader,
)
from elmokit.config import Count, ModelConfig, Precision, checked
from elmokit.inference.layers import LayerChoice, Vectors
from elmokit.system import import_extra

base: Any = import_extra("sklearn.base", "sklearn", "scikit-learn")

Pool = Literal["mean", "max", "mean+max"]

POOLS = {"mean": MEAN, "max": MAX}
REMEDY = "set_params(model=…) names the right one"


class ElmoVectorizer(base.TransformerMixin, base.BaseEstimator):  # type: ignore[misc]
    """Turns texts into vectors (texts, size), for any estimator to learn from.

    There is nothing to fit: `transform` may be called at once. What `fit` stores is the checksum of
    the model, so that another one is an error later. Texts are read once in a process: copies of
    the vectorizer, those of a grid search among them, find the vectors of any layer and pool there.
    A pickle names the model, by its absolute path if it is a folder, and does not hold it.

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
        """Check the texts and the settings, and remember which model it is."""
        del y
        checked_texts(X)
        loaded = self._load()
        self._parts(loaded.embedder.config)
        self.model_checksum_ = loaded.checksum
        return self

    def transform(self, X: Sequence[str]) -> Vectors:
        """The vectors (texts, size) of texts, float32; zeros for a text without words."""
        texts = checked_texts(X)
        checked("batch_size", self.batch_size, Count)
        embedder = self._load(getattr(self, "model_checksum_", None)).embedder
        parts = self._parts(embedder.config)
        reader = shared_reader(embedder, self.tokenizer, self.cache_megabytes)
        vectors = np.empty((len(texts), len(parts), embedder.vector_size), np.float32)
        for start in range(0, len(texts), self.batch_size):
            batch = slice(start, start + self.batch_size)
            found = reader.read(texts[batch], pooled=True)
            for text, pooled in zip(vectors[batch], found, strict=True):
                text[:] = [pooled[place] for place in parts.values()]
        return vectors.reshape(len(texts), -1)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """What each number of a vector is: pool, layer and place, as in "mean_layer1_0"."""
        del input_features  # texts have no features that could have names
        config = self._load(getattr(self, "model_checksum_", None)).embedder.config
        places = range(config.vector_size)
        names = [f"{part}_{place}" for part in self._parts(config) for place in places]
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

    def _load(self, checksum: str | None = None) -> LoadedModel:
        """The model, which must have a checksum if one is given."""
        return load_shared(
            self.model, self.device, self.precision, expected=checksum, remedy=REMEDY
        )

    def _parts(self, config: ModelConfig) -> dict[str, tuple[int, int]]:
        """What stands side by side in a vector, by name: where the pooled vectors have it."""
        checked("pool", self.pool, Pool)
        count = config.layer_count
        chosen = LayerChoice(self.layers, count).name
        rows = {f"layer{n}": n for n in range(count) if chosen in ("all", str(n))}
        return {
            f"{pool}_{name}": (POOLS[pool], row)
            for pool in self.pool.split("+")
            for name, row in (rows or {"average": count}).items()
        }
