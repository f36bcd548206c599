import pytest
import torch
from closeness import assert_close
from small_models import small_bilm, small_embedder

from elmokit import Elmo, batch_to_ids
from elmokit.errors import ConfigError, InputError

SENTENCES = [["He", "sat", "on", "the", "bank", "."], ["bank"], []]


def test_each_mix_has_a_vector_for_every_word_and_zeros_on_padding():
    output = Elmo(small_bilm(), mixes=2, dropout=0.0)(batch_to_ids(SENTENCES))
    assert output.mask.tolist() == [[True] * 6, [True] + [False] * 5, [False] * 6]
    assert len(output.mixes) == 2
    for mix in output.mixes:
        assert mix.shape == (3, 6, 12)
        assert mix[~output.mask].eq(0).all()
        assert mix[output.mask].ne(0).any(-1).all()


def test_boundaries_are_kept_when_asked_for():
    bilm, ids = small_bilm(), batch_to_ids(SENTENCES)
    kept = Elmo(bilm, dropout=0.0, keep_boundaries=True)(ids)
    removed = Elmo(bilm, dropout=0.0)(ids)
    assert kept.mask.sum(1).tolist() == [8, 3, 2]
    assert_close(kept.mixes[0][0, 1:7], removed.mixes[0][0])
    assert_close(kept.mixes[0][1, 1:2], removed.mixes[0][1, :1])


def test_the_task_trains_the_mix_and_leaves_a_frozen_bilm_alone():
    elmo = Elmo(small_bilm(), dropout=0.0)
    elmo(batch_to_ids(SENTENCES)).mixes[0].square().sum().backward()
    assert elmo.mixes[0].weights.grad.abs().sum() > 0
    assert elmo.mixes[0].gamma.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in elmo.bilm.parameters())


def test_fine_tuning_reaches_every_weight_of_the_bilm():
    elmo = Elmo(small_bilm(), dropout=0.0, finetune=True)
    elmo(batch_to_ids(SENTENCES)).mixes[0].square().sum().backward()
    for name, parameter in elmo.bilm.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_dropout_acts_in_training_only():
    elmo = Elmo(small_bilm(), dropout=0.5)
    ids = batch_to_ids([SENTENCES[0]])
    assert elmo.train()(ids).mixes[0].eq(0).any()
    assert not elmo.eval()(ids).mixes[0].eq(0).any()


def test_state_given_back_continues_the_rows():
    elmo = Elmo(small_bilm(), dropout=0.0)
    ids = batch_to_ids(SENTENCES[:2])
    first = elmo(ids)
    again = elmo(ids, first.state)
    afresh = elmo(ids)
    assert (again.mixes[0] - first.mixes[0]).abs().max() > 1e-3
    assert torch.equal(afresh.mixes[0], first.mixes[0])


def test_the_penalty_of_all_mixes_is_summed():
    elmo = Elmo(small_bilm(), mixes=2, mix_weights=[1.0, 2.0, 0.0], penalty=0.1)
    assert elmo.penalty().item() == pytest.approx(2 * 0.1 * 5)


def test_directions_can_be_weighed_apart():
    ids = batch_to_ids(SENTENCES)
    both = Elmo(small_bilm(), dropout=0.0, per_direction=True)(ids).mixes[0]
    added = Elmo(small_bilm(), dropout=0.0, per_direction=True, join="add")(ids).mixes[0]
    assert both.shape == (3, 6, 12)
    assert added.shape == (3, 6, 6)


def test_layer_norm_and_directions_cannot_be_combined():
    with pytest.raises(ConfigError, match="cannot be combined"):
        Elmo(small_bilm(), layer_norm=True, per_direction=True)


def test_padding_before_a_word_is_refused():
    ids = batch_to_ids([["a", "b"]])
    ids[0, 0] = 0
    with pytest.raises(InputError, match="padding before a word"):
        Elmo(small_bilm())(ids)


def test_state_carried_while_fine_tuning_has_no_history():
    elmo = Elmo(small_bilm(), dropout=0.0, finetune=True)
    state = None
    for _ in range(2):
        output = elmo(batch_to_ids(SENTENCES), state)
        output.mixes[0].sum().backward()
        state = output.state
    assert not any(part.requires_grad for half in state for part in half)


def test_an_embedder_in_place_of_its_bilm_shows_the_right_call():
    with pytest.raises(InputError, match=r"of type Embedder, not BiLM; write Elmo\(embedder\.bilm"):
        Elmo(small_embedder())
