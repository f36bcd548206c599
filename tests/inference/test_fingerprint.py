from __future__ import annotations

import hashlib
import json

import pytest
import torch
from small_models import small_bilm, small_embedder

from elmokit.inference.embedder import fingerprint


def test_a_fingerprint_is_of_the_config_the_names_and_the_values():
    bilm = small_bilm(softmax_words=7)
    expected = hashlib.sha256(json.dumps(bilm.config.to_dict(), sort_keys=True).encode())
    for name, value in sorted(bilm.state_dict().items()):
        if "softmax" not in name:
            expected.update(name.encode() + value.numpy().tobytes())
    assert fingerprint(bilm, None) == expected.hexdigest()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_another_type_have_a_fingerprint_of_their_own(dtype):
    embedder = small_embedder()
    before = embedder.fingerprint()
    embedder.bilm.to(dtype)
    other = embedder.fingerprint()
    assert other != before
    with torch.no_grad():
        embedder.bilm.forward_lstm.layers[1].bias[3] += 1
    assert embedder.fingerprint() not in (before, other)
