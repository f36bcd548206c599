"""ONNX Runtime: vectors of a model that `elmo convert --to onnx` wrote, by NumPy, without torch.

```
from elmokit.adaptors.onnx import OnnxEmbedder
OnnxEmbedder("my-onnx").embed([["The", "river", "bank"]])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_choice
from elmokit.errors import FormatError
from elmokit.io.files import read_object
from elmokit.system import import_extra
from elmokit.text.characters import UnusualWords, batch_by_length, check_sentences, padded_ids
from elmokit.text.tokenizer import AnyTokenizer, SplitsText, tokenizer_of

# The graph computes padding too: few sentences, of like length, are faster than many.
TOKENS_PER_BATCH, SENTENCES_PER_BATCH = 4096, 16


class OnnxEmbedder(SplitsText):
    """Contextual word vectors by ONNX Runtime. Calls from several threads are safe.

    Args:
        folder: What `elmo convert --to onnx` wrote; `description` is its `elmokit.json`.
        tokenizer: As of `Embedder`; None for the one that the model was trained with.
        threads: How many compute; 0 for ONNX Runtime's choice.
        providers: Where to compute, best first, by ONNX Runtime's names.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        tokenizer: AnyTokenizer | None = None,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        runtime, folder = import_extra("onnxruntime", "onnx"), Path(folder)
        self.description = read_object(folder / "elmokit.json")
        if (self.description.get("format"), self.description.get("version")) != ("elmokit-onnx", 1):
            raise FormatError(f"{folder}: elmokit.json is not what elmo convert --to onnx writes")
        self.tokenizer = tokenizer_of(tokenizer or self.description["tokenizer"])
        self.unusual = UnusualWords(self.description["max_characters"])
        options, graph = runtime.SessionOptions(), str(folder / "model.onnx")
        options.intra_op_num_threads = threads
        try:
            self._session = runtime.InferenceSession(graph, options, list(providers))
        except Exception as error:  # a kind for each cause, none in common
            raise FormatError(
                f"{graph}: cannot be read ({str(error).splitlines()[0][:160]}); convert the model "
                "again, or run: pip install --upgrade onnxruntime"
            ) from error

    def embed(
        self, sentences: Sequence[Sequence[str]], layers: str | int = "average"
    ) -> list[NDArray[np.float32]]:
        """Embed each sentence of words as an array (words, size), from zeros.

        `layers` is "average", "top", a number, or "all": (layers, words, size).
        """
        count, longest = self.description["layers"], self.description["max_characters"]
        check_choice("layers", layers, ("average", "top", "all", *range(count)))
        sentences = check_sentences(sentences)
        self.unusual.note_all(sentences)
        lengths = [len(sentence) for sentence in sentences]
        results = [np.zeros(0, np.float32)] * len(sentences)
        for batch in batch_by_length(lengths, TOKENS_PER_BATCH, SENTENCES_PER_BATCH):
            ids = padded_ids([sentences[number] for number in batch], longest, least=1)
            [vectors] = self._session.run(None, {"ids": ids})
            if layers != "all":
                number = count - 1 if layers == "top" else layers
                vectors = vectors.mean(0) if layers == "average" else vectors[number]
            for row, number in enumerate(batch):
                results[number] = vectors[..., row, : lengths[number], :].copy()
        return results
