"""ELMoForManyLangs: `from elmokit.adaptors.elmoformanylangs import Embedder`."""

from __future__ import annotations

from collections.abc import Sequence

import elmokit.inference.embedder
from elmokit.formats.find import Location
from elmokit.inference.layers import Vectors
from elmokit.text.characters import Sentence

OUTPUT_LAYERS: dict[int, str] = {-1: "average", -2: "all"}


class Embedder:
    """What ELMoForManyLangs's class was.

    Every sentence starts from zeros. There it does in the first batch alone: later ones continue
    it, in an order drawn by chance. The model may be one of theirs, or any other; `batch_size`
    changes nothing.
    """

    def __init__(self, model_dir: Location, batch_size: int = 64) -> None:
        self.model_dir = model_dir
        self.batch_size = batch_size
        self.embedder = elmokit.inference.embedder.Embedder.load(model_dir)

    def sents2elmo(self, sents: Sequence[Sentence], output_layer: int = -1) -> list[Vectors]:
        """Vectors of each sentence: (words, size), or (layers, words, size) of all layers.

        `output_layer` is 0 for the token layer, 1, 2, … for the LSTM's, -1 for the average of all,
        -2 for all.
        """
        return self.embedder.embed(sents, OUTPUT_LAYERS.get(output_layer, output_layer))
