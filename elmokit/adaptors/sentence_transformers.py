"""sentence-transformers: `ElmoModule`, the first module of a `SentenceTransformer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from elmokit.adaptors.tensorflow_hub import Spec, locations_of
from elmokit.adaptors.text_reader import TextReader
from elmokit.errors import InputError
from elmokit.formats.find import read_model
from elmokit.formats.mixes import read_mix, write_mix
from elmokit.formats.native import write_model
from elmokit.inference.embedder import Embedder
from elmokit.model.bilm import BiLM
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.system import import_extra

base: Any = import_extra(
    "sentence_transformers.base.modules", "sentence-transformers", "sentence-transformers"
)

MIX = "mix.json"


class ElmoModule(base.InputModule):  # type: ignore[misc]
    """Turns texts into the vectors of their words, for a pooling module behind it.

    The biLM stays as it is; the mix of its layers and gamma are trained, from their average on.
    While training, the layers of a text are computed once, as far as the cache has room. A saved
    model holds the mix, and the biLM in a folder that `Embedder.load` reads too. No more than
    `max_seq_length` words of a text are read.
    """

    save_in_root = False

    def __init__(
        self, model: Spec = None, max_seq_length: int | None = None, cache_megabytes: int = 512
    ) -> None:
        super().__init__()
        saved = read_model(*locations_of(model), softmax=False)
        bilm = BiLM.from_weights(saved.config, saved.weights)
        settings: dict[str, Any] = {"vocabulary": saved.vocabulary, "scripts": saved.scripts}
        self.embedder = Embedder(bilm, tokenizer=saved.tokenizer, **settings)
        self.bilm = bilm.requires_grad_(False)
        self.mix: ScalarMix | DirectionalMix = ScalarMix(saved.config.layer_count)
        config = replace(saved.config, softmax_words=None)
        self._saved = saved._replace(config=config, weights={}, card="")
        self.max_seq_length = max_seq_length
        self.cache_megabytes = cache_megabytes
        self._cache: TextReader | None = None

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """The texts as they are; `forward` splits them into words."""
        if not all(isinstance(text, str) for text in inputs):
            raise InputError("ELMo reads texts, not pairs of texts or pictures; give strings")
        texts = [(prompt or "") + text for text in inputs]
        # Trainers look for a tensor of this name, one row a text, and drop what has none.
        return {"input_ids": torch.tensor([[len(text)] for text in texts]), "texts": texts}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `token_embeddings` (texts, words, size) and `attention_mask` (texts, words)."""
        layers = self._reader().read(features["texts"], pooled=False)
        device = self.mix.gamma.device
        words = [torch.from_numpy(found).transpose(0, 1) for found in layers]
        padded = pad_sequence(words, batch_first=True).to(device)  # (texts, words, layers, size)
        lengths = torch.tensor([len(found) for found in words], device=device)
        mask = torch.arange(padded.shape[1], device=device) < lengths[:, None]
        mixed = self.mix(padded.permute(2, 0, 1, 3).to(self.mix.gamma.dtype), mask)
        return {**features, "token_embeddings": mixed, "attention_mask": mask.long()}

    def get_embedding_dimension(self) -> int:
        """Size of a word's vector."""
        return self.embedder.vector_size

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write a model folder, without a softmax, and the mix into it."""
        saved = self._saved._replace(weights=self.bilm.state_dict())
        write_model(output_path, saved, force=True)
        write_mix(self.mix, Path(output_path) / MIX)

    @classmethod
    def load(
        cls, model_name_or_path: str, subfolder: str = "", *_: Any, **where: Any
    ) -> ElmoModule:
        """Read what `save` wrote, here or on the Hub."""
        names = ("token", "cache_folder", "revision", "local_files_only")
        place = {name: where[name] for name in names if name in where}
        folder = cls.load_dir_path(model_name_or_path, subfolder, **place)
        module = cls(folder)
        module.mix = read_mix(Path(folder) / MIX, module.bilm.config)
        return module

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None}  # other processes read for themselves

    def _reader(self) -> TextReader:
        """Who reads: in training with a cache, since texts come again each epoch."""
        words = self.max_seq_length
        if not self.training:
            return TextReader(self.embedder, words=words, megabytes=0)
        if self._cache is None or self._cache.words != words:
            self._cache = TextReader(self.embedder, words=words, megabytes=self.cache_megabytes)
        return self._cache
