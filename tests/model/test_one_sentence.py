from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from closeness import assert_agree
from small_models import small_bilm
from torch import Tensor

from elmokit import BiLM
from elmokit.model import bilm as bilm_module
from elmokit.model import products
from elmokit.model.bilm import BiLMOutput


def read(bilm: BiLM, vectors: Tensor, *settings: Any) -> BiLMOutput:
    return bilm.contextualize(vectors, torch.tensor([vectors.shape[1]] * len(vectors)), *settings)


def one_sentence_for(bilm: BiLM, words: int = 7, rows: int = 1) -> Tensor:
    return torch.randn(rows, words, bilm.config.token_size, generator=torch.manual_seed(1))


def parts(output: BiLMOutput) -> list[Tensor]:
    return [*output.layers.vectors, *(part for half in output.state for part in half)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cell_size": 256, "token_size": 512},  # several blocks of outputs
        {"cell_size": 300},
        {"cell_size": 8, "token_size": 8},  # no projection
        {"cell_clip": None, "projection_clip": None},
        {"cell_clip": 0.1, "projection_clip": 0.05},
        {"skip_connections": False, "lstm_layers": 3},
    ],
)
@torch.no_grad()
def test_one_sentence_in_lock_step_is_as_among_others(monkeypatch, changes):
    bilm = small_bilm(scale=1.0, **changes)
    vectors = one_sentence_for(bilm)
    first = read(bilm, vectors)
    then = read(bilm, vectors.flip(1), first.state)
    assert bilm._lock_step is not None
    monkeypatch.setattr(bilm_module, "pays_in_lock_step", lambda *_: False)
    apart = read(bilm, vectors)
    assert_agree(parts(first), parts(apart))
    assert_agree(parts(then), parts(read(bilm, vectors.flip(1), apart.state)))


@torch.no_grad()
def test_rows_that_the_sentence_does_not_continue_keep_their_state():
    bilm = small_bilm()
    before = read(bilm, one_sentence_for(bilm, rows=3)).state
    after = read(bilm, one_sentence_for(bilm), before).state
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old.cells[:, 1:], new.cells[:, 1:])
        assert not torch.equal(old.cells[:, :1], new.cells[:, :1])


@pytest.mark.parametrize(("rows", "settings"), [(2, ()), (1, (None, "exact", ("forward",)))])
@torch.no_grad()
def test_other_batches_are_read_direction_by_direction(rows, settings):
    bilm = small_bilm()
    read(bilm, one_sentence_for(bilm, rows=rows), *settings)
    assert bilm._lock_step is None


def test_gradients_padding_and_other_types_are_read_direction_by_direction():
    bilm = small_bilm()
    read(bilm, one_sentence_for(bilm))
    with torch.no_grad():
        bilm.contextualize(one_sentence_for(bilm), torch.tensor([3]))
        bilm.contextualize(one_sentence_for(bilm, words=0), torch.tensor([0]))
        read(small_bilm().double(), one_sentence_for(bilm).double())
    assert bilm._lock_step is None


@torch.no_grad()
def test_fast_is_in_lock_step_where_its_products_are_the_exact_ones(monkeypatch):
    bilm = small_bilm()
    ways = {"exact": products.PlainProduct, "fast": products.BFloat16Product}
    if products.works(products.BFloat16Product):
        with monkeypatch.context() as patch:
            patch.setattr(products, "best_way", lambda weight, precision: ways[precision])
            read(bilm, one_sentence_for(bilm), None, "fast")
        assert bilm._lock_step is None
    read(bilm, one_sentence_for(bilm), None, "fast")
    assert bilm._lock_step is not None


@torch.no_grad()
def test_changed_weights_are_laid_out_again():
    bilm = small_bilm()
    vectors = one_sentence_for(bilm)
    before = read(bilm, vectors).layers.vectors
    bilm.backward_lstm.layers[1].recurrent_weight.mul_(-1)
    after = read(bilm, vectors).layers.vectors
    assert torch.equal(before[:2], after[:2])
    assert not torch.equal(before[2], after[2])


def test_several_threads_read_at_once():
    bilm = small_bilm()
    sentences = [one_sentence_for(bilm, words) for words in range(2, 34)]

    def vectors_of(vectors: Tensor) -> Tensor:
        with torch.inference_mode():
            return read(bilm, vectors).layers.vectors

    expected = [vectors_of(vectors) for vectors in sentences]
    with ThreadPoolExecutor(4) as threads:
        for one, other in zip(threads.map(vectors_of, sentences), expected, strict=True):
            assert torch.equal(one, other)


@torch.no_grad()
def test_hooks_of_layers_are_called_for_one_sentence_too():
    bilm, called = small_bilm(), []
    layer = bilm.backward_lstm.layers[1]
    layer.register_forward_hook(lambda *_: called.append("after"))
    read(bilm, one_sentence_for(bilm))
    assert called == ["after"]
