import pytest
import torch
from closeness import assert_close
from helpers import run_python
from small_models import small_bilm

from elmokit import Elmo, Embedder, batch_to_ids
from elmokit.config import WordEncoderConfig
from elmokit.model.weights import track_writes, version_of

IDS = batch_to_ids([["a", "b"], ["c"]])


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_an_optimiser_is_noticed_by_all_that_was_made_of_the_weights(fused):
    elmo = Elmo(small_bilm(), finetune=True, dropout=0)
    embedder = Embedder(elmo.bilm)
    [before] = embedder.embed([["a", "b"]])
    optimiser = torch.optim.AdamW(elmo.parameters(), lr=0.1, fused=fused)
    elmo(IDS).mixes[0].square().sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    [after] = embedder.embed([["a", "b"]])
    [expected] = Embedder(small_bilm_like(elmo.bilm)).embed([["a", "b"]])
    assert abs(after - before).max() > 1e-3
    assert_close(after, expected)


def small_bilm_like(bilm):
    """Another model with the same weights."""
    return type(bilm).from_weights(bilm.config, bilm.state_dict())


@pytest.mark.parametrize("encoder", [None, WordEncoderConfig(5, begin_id=4, end_id=5)])
def test_an_encoder_that_is_trained_alone_is_noticed_too(encoder):
    bilm = small_bilm() if encoder is None else small_bilm(encoder=encoder)
    ids = IDS[0] if encoder is None else torch.tensor([1, 2])
    optimiser = torch.optim.AdamW(bilm.encoder.parameters(), fused=True)
    before = version_of(bilm.encoder.parameters())
    bilm.encoder(ids).sum().backward()
    optimiser.step()
    assert version_of(bilm.encoder.parameters()) != before


def test_a_weight_that_a_fused_optimiser_left_alone_keeps_its_version():
    bilm = small_bilm()
    frozen, trained = bilm.forward_lstm.layers
    frozen.requires_grad_(False)
    before = version_of(frozen.parameters()), version_of(trained.parameters())
    optimiser = torch.optim.AdamW(bilm.parameters(), fused=True)
    bilm(IDS).layers.vectors.sum().backward()
    optimiser.step()
    assert version_of(frozen.parameters()) == before[0]
    assert version_of(trained.parameters()) != before[1]


def test_a_program_that_only_embeds_has_no_hook_of_optimisers_and_no_compiler():
    program = """
import sys
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
from elmokit import Elmo, Embedder, batch_to_ids
from elmokit.formats.allennlp import parts
embedder = Embedder.load()
parts(embedder.config)  # as AllenNLP's files are read
embedder.embed([["a", "b"]])
Elmo(embedder.bilm)(batch_to_ids([["a", "b"]]))
print(len(hooks), "torch._dynamo" in sys.modules)
Elmo(embedder.bilm, finetune=True)(batch_to_ids([["a", "b"]]))
print(len(hooks))
"""
    assert run_python(program).split() == ["0", "False", "1"]


def test_weights_loaded_in_inference_mode_are_laid_out_once():
    expected = Embedder(small_bilm()).embed([["a", "b"]])
    with torch.inference_mode():
        embedder = Embedder(small_bilm_like(small_bilm()))
    layer = embedder.bilm.forward_lstm.layers[0]
    [once] = embedder.embed([["a", "b"]])
    laid_out = layer.products("exact")
    [twice] = embedder.embed([["a", "b"]])
    assert layer.products("exact") is laid_out
    assert embedder.token_cache.hit_rate == 0.5
    assert (once == twice).all()
    assert_close(once, expected[0])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_writes_to_weights_loaded_in_inference_mode_are_noticed(mode):
    with torch.inference_mode():
        embedder = Embedder(small_bilm())
    [before] = embedder.embed([["a", "b"]])
    with mode():
        embedder.bilm.forward_lstm.layers[0].recurrent_weight.mul_(3)
    [after] = embedder.embed([["a", "b"]])
    assert abs(after - before).max() > 1e-3


def test_weights_made_in_inference_mode_can_be_trained_once_tracked():
    with torch.inference_mode():
        bilm = small_bilm()
    wanted = [weight.requires_grad for weight in bilm.parameters()]
    track_writes(bilm)
    assert [weight.requires_grad for weight in bilm.parameters()] == wanted
    assert not any(weight.is_inference() for weight in bilm.parameters())
    bilm(IDS).layers.vectors.sum().backward()
    bilm.weights_changed()
