"""`ElmoEmbedder` of AllenNLP 0.9, which later versions removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmokit.adaptors.allennlp_bilm import StatefulBiLM, StateOfEmbedder
from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.formats.find import Location, find_published
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.layers import LayerChoice
from elmokit.text.characters import Sentence, short
from elmokit.vectors.hdf5 import SentenceKeys, write_hdf5
from elmokit.vectors.items import VectorSettings

DEFAULT_OPTIONS_FILE = find_published("original").urls("options.json")[0]
DEFAULT_WEIGHT_FILE = find_published("original").urls("weights.hdf5")[0]

OutputFormat = Literal["all", "top", "average"]


class ElmoEmbedder:
    """Layers of sentences as NumPy arrays, and files of them.

    Files may be URLs; without a `weight_file`, `options_file` is whatever `Embedder.load` takes.
    `stateful` continues the batch before, row by row, as AllenNLP does. GPU -1 is the CPU.
    """

    def __init__(
        self,
        options_file: Location = DEFAULT_OPTIONS_FILE,
        weight_file: Location | None = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        stateful: bool = True,
    ) -> None:
        self.cuda_device = cuda_device
        self.embedder = Embedder.load(
            options_file,
            weight_file,
            device="cpu" if cuda_device < 0 else f"cuda:{cuda_device}",
            state="carry" if stateful else "zero",
        )

    @property
    def elmo_bilm(self) -> StatefulBiLM:
        """The biLM as a module, which shares the state."""
        bilm = self.embedder.bilm
        return StatefulBiLM(bilm, state=StateOfEmbedder(self.embedder))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "carried": self.embedder.carried}  # which its pickle has not

    def __setstate__(self, state: dict[str, Any]) -> None:
        carried = state.pop("carried")
        self.__dict__.update(state)
        self.embedder.carried = carried

    def batch_to_embeddings(self, batch: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """All layers (batch, layers, words, size), zero on padding, and the mask (batch, words)."""
        rows = [torch.from_numpy(array).swapaxes(0, 1) for array in self.embed_batch(batch)]
        config = self.embedder.config
        none = torch.zeros(0, 0, config.layer_count, config.vector_size)
        padded = pad_sequence(rows, batch_first=True) if rows else none
        embeddings = padded.swapaxes(1, 2)
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(embeddings.shape[2]) < lengths[:, None]
        return embeddings.to(self.embedder.device), mask.to(self.embedder.device)

    def embed_sentence(self, sentence: Sentence) -> Vectors:
        """All layers (layers, words, size) of one sentence of words."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sentence]) -> list[Vectors]:
        """All layers (layers, words, size) of each sentence; they are one batch."""
        return self.embedder.embed_layers(batch)

    def embed_sentences(
        self, sentences: Iterable[Sentence], batch_size: int = 64
    ) -> Iterator[Vectors]:
        """All layers (layers, words, size) of any number of sentences, one after the other."""
        checked("batch_size", batch_size, Count)
        remaining = iter(sentences)
        batches = iter(lambda: list(islice(remaining, batch_size)), [])
        return (vectors for batch in batches for vectors in self.embed_batch(batch))

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: OutputFormat = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed the lines of an open file into HDF5, in the layout of `allennlp elmo`.

        Args:
            input_file: A sentence per line, words separated by whitespace; a blank line has none.
            output_file_path: The HDF5 file.
            output_format: "all" layers (layers, words, size), the "top" one or the "average" of
                them (words, size).
            batch_size: Sentences read at once.
            forget_sentences: Leave `sentence_to_index` out.
            use_sentence_keys: Name each dataset by its sentence, not by its line.
        """
        checked("output_format", output_format, OutputFormat)
        sentences = read_sentences(input_file)
        if use_sentence_keys:
            # Now, not after hours of computing.
            keys = SentenceKeys(output_file_path)
            for sentence in sentences:
                keys.add(sentence)
        layers = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        arrays = (LayerChoice(output_format, len(array)).of(array) for array in layers)
        write_hdf5(
            output_file_path,
            zip(sentences, arrays, strict=True),
            VectorSettings(keep_sentences=not forget_sentences),
            sentence_keys=use_sentence_keys,
        )

    def reset_state(self) -> None:
        """Forget the batches read so far."""
        self.embedder.reset_state()


def read_sentences(input_file: Iterable[str]) -> list[str]:
    """The lines of an open text file, without whitespace around them."""
    if isinstance(input_file, str | bytes | Path):
        raise InputError(f"input_file is {short(input_file)}; give the open file: open(name)")
    return [line.strip() for line in input_file]
