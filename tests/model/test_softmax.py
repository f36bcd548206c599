from __future__ import annotations

import torch

from elmokit.model.softmax import Softmax


def test_probabilities_of_all_words_add_up_to_one():
    torch.manual_seed(0)
    softmax = Softmax(words=7, token_size=4)
    outputs = torch.randn(3, 4)
    probabilities = softmax(outputs).exp()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3))
    logits = outputs @ softmax.weight.t() + softmax.bias
    torch.testing.assert_close(probabilities, logits.softmax(-1))
