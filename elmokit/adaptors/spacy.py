"""spaCy: the component `elmo`, and `elmokit.Tok2Vec.v1`, a layer for spaCy's own training.

spaCy finds both by these names; nothing of this module need be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from elmokit.adaptors.text_reader import absolute, fetched, load_shared, shared_reader
from elmokit.errors import FormatError, InputError, MissingFileError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Vectors
from elmokit.io.files import read_object, write_json
from elmokit.system import import_extra

spacy: Any = import_extra("spacy", "spacy", "spaCy")
thinc: Any = import_extra("thinc.api", "spacy")

Model = str | list[str] | None
"""What names a model in spaCy's config: as for `Embedder.load`, a pair as a list."""
BETWEEN_WORDS = "\0"  # stands in no word
split_words = methodcaller("split", BETWEEN_WORDS)
SETTINGS = {"model": None, "layers": "average", "keep_layers": False, "device": None}


@spacy.Language.factory("elmo", assigns=["doc.tensor"], default_config=SETTINGS)
class ElmoComponent:
    """Gives docs the vectors of their tokens: `doc.tensor`, `.vector` and `.similarity`.

    Each sentence is read by itself where an earlier component has found sentences, else the doc at
    once. Whitespace is no word; its rows are zeros. A saved pipeline names the model, by its
    absolute path if it is a folder, with its checksum, and does not hold it. The settings are in
    docs/how-to/use-in-spacy.md.
    """

    def __init__(
        self,
        nlp: Any,
        name: str,
        model: Model,
        layers: int | str,
        keep_layers: bool,
        device: str | None,
    ) -> None:
        if layers == "all":
            raise InputError("layers is 'all'; doc.tensor has one vector a token: keep_layers=True")
        self.name, self.model, self.layers, self.device = name, model, layers, device
        self.keep_layers = keep_layers
        self.checksum: str | None = None
        spacy.tokens.Doc.set_extension("elmo_layers", default=None, force=True)

    def __call__(self, doc: Any) -> Any:
        """Annotate a doc."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 128) -> Iterator[Any]:
        """Annotate docs, so many at once."""
        for docs in spacy.util.minibatch(stream, batch_size):
            embedder = self._embedder()
            choice = embedder.choose(self.layers)
            count, size = embedder.config.layer_count, embedder.vector_size
            shape = (count, size) if self.keep_layers else (size,)
            read = partial(embedder.embed_stream, layers="all" if self.keep_layers else self.layers)
            for doc, vectors in zip(docs, vectors_of(docs, shape, read), strict=True):
                if self.keep_layers:
                    doc._.elmo_layers = vectors
                doc.tensor = choice.of(vectors) if self.keep_layers else vectors
                for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
                    hooks.update(vector=vector_of, has_vector=bool, similarity=similarity)
                yield doc

    def to_disk(self, path: str | Path, **_: Any) -> None:
        """Say which model it is, for a saved pipeline."""
        checksum = self._embedder().fingerprint()
        record = {"model": self.model, "path": absolute(self.model), "checksum": checksum}
        write_json(path, record)

    def from_disk(self, path: str | Path, **_: Any) -> ElmoComponent:
        """Use the model of a saved pipeline, and no other."""
        record = read_object(path)
        if not {"model", "path"} <= record.keys() or type(record.get("checksum")) is not str:
            raise FormatError(f"{path}: must have model, path, checksum; save the pipeline again")
        moved = self.model != record["model"]  # somebody says where it is now
        self.model = fetched(self.model if moved else record["path"])
        self.checksum = record["checksum"]
        return self

    def _embedder(self) -> Embedder:
        remedy = f"spacy.load(…, config={{'components.{self.name}.model': …}}) names the right one"
        return load_shared(self.model, self.device, expected=self.checksum, remedy=remedy).embedder


@spacy.registry.architectures("elmokit.Tok2Vec.v1")  # type: ignore[untyped-decorator]
def elmo_tok2vec(model: Model = None, cache_megabytes: int = 512) -> Any:
    """A layer from docs to the vectors of their tokens, (tokens, size) each.

    The biLM stays as it is; the mix of its layers and gamma are trained. Layers of sentences that
    are trained on are computed once, as far as the cache has room.
    """
    attrs = {"model": absolute(model), "checksum": None, "megabytes": cache_megabytes}
    parts: dict[str, Any] = {"dims": {"nO": None}, "params": {"mix": None}, "attrs": attrs}
    layer = thinc.Model("elmo", mix_layers, **parts)
    with suppress(MissingFileError):  # one that is read back knows where it was
        loaded = load_shared(fetched(model))
        layer.attrs["checksum"] = loaded.checksum
        layer.set_dim("nO", loaded.embedder.vector_size)
        layer.set_param("mix", layer.ops.alloc1f(loaded.embedder.config.layer_count + 1))
    return layer


def mix_layers(layer: Any, docs: Sequence[Any], is_train: bool) -> tuple[list[Any], Any]:
    """The mix of each doc's layers, and what makes its gradient; equation 1 of the paper."""
    attrs, ops = layer.attrs, layer.ops
    saved = {"expected": attrs["checksum"], "remedy": "put it back where it was in training"}
    embedder = load_shared(fetched(attrs["model"]), **saved).embedder

    def read(sentences: Sequence[list[str]]) -> Iterable[Vectors]:
        if not is_train:
            return embedder.embed_stream(sentences, "all")
        reader = shared_reader(embedder, split_words, attrs["megabytes"])
        return reader.read([BETWEEN_WORDS.join(words) for words in sentences], pooled=False)

    mix = layer.get_param("mix")
    shape = (mix.size - 1, embedder.vector_size)
    layers = [ops.asarray(found) for found in vectors_of(docs, shape, read)]
    shares = ops.softmax(mix[None, :-1])[0]
    gamma = 1 + mix[-1]  # so that weight decay draws it to 1
    outputs = [gamma * ops.xp.tensordot(shares, found, axes=1) for found in layers]

    def backprop(gradients: Sequence[Any]) -> list[Any]:
        pairs = zip(layers, gradients, strict=True)
        by_layer = sum((found * one).sum((1, 2)) for found, one in pairs)
        of_shares = gamma * shares * (by_layer - shares @ by_layer)
        layer.inc_grad("mix", ops.xp.append(of_shares, shares @ by_layer).astype("f"))
        return []

    return outputs, backprop


def vectors_of(
    docs: Sequence[Any],
    shape: tuple[int, ...],
    read: Callable[[list[list[str]]], Iterable[Vectors]],
) -> Iterator[Vectors]:
    """The vectors (…, tokens, size) of each doc, of shape (…, size); zeros for whitespace."""
    tokens = []
    for doc in docs:
        sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
        words = [[token for token in sentence if not token.is_space] for sentence in sentences]
        tokens.append([sentence for sentence in words if sentence])
    vectors = iter(read([[token.text for token in one] for doc in tokens for one in doc]))
    for doc, kept in zip(docs, tokens, strict=True):
        found = np.zeros((*shape[:-1], len(doc), shape[-1]), np.float32)
        for sentence in kept:
            found[..., [token.i for token in sentence], :] = next(vectors)
        yield found


def vector_of(place: Any) -> Vectors:
    """The vector of a token, the mean over the words of a span or a doc; zeros without words."""
    tokens = [place] if isinstance(place, spacy.tokens.Token) else place
    rows = [token.i for token in tokens if not token.is_space]
    tensor = place.doc.tensor
    return tensor[rows].mean(0) if rows else np.zeros(tensor.shape[1:], np.float32)


def similarity(one: Any, other: Any) -> float:
    """The cosine of two vectors; 0 where one is zeros."""
    norms = float(np.linalg.norm(one.vector) * np.linalg.norm(other.vector))
    return float(one.vector @ other.vector) / norms if norms else 0.0
