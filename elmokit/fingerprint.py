"""A model's fingerprint: what vectors were computed with, in a line."""

from __future__ import annotations

import hashlib
import json

import torch

from elmokit.config import WordEncoderConfig
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import Vocabulary


def fingerprint(bilm: BiLM, vocabulary: Vocabulary | None) -> str:
    """SHA-256 of everything in a model that its vectors depend on; the softmax is no part of it."""
    sha256 = hashlib.sha256(json.dumps(bilm.config.to_dict(), sort_keys=True).encode())
    if isinstance(bilm.config.encoder, WordEncoderConfig) and vocabulary is not None:
        sha256.update("\n".join(vocabulary.words).encode("utf-8", "surrogatepass"))
    for name, value in sorted(bilm.state_dict().items()):
        if "softmax" not in name:
            sha256.update(name.encode())
            # As bytes: NumPy has no bfloat16.
            values = value.detach().cpu().contiguous().flatten()
            sha256.update(values.view(torch.uint8).numpy().data)
    return sha256.hexdigest()
