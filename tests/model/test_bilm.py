import pytest
import torch
from closeness import TOLERANCE, assert_agree, assert_close
from small_models import small_bilm, small_config

from elmokit import BiLM, batch_to_ids
from elmokit.config import WordEncoderConfig
from elmokit.errors import InputError
from elmokit.model import products
from elmokit.model.bilm import distinct_rows
from elmokit.model.lstm import LayerState
from elmokit.model.products import BFloat16Product, FBGEMMProduct, OneDNNProduct, PlainProduct


def test_weights_are_taken_as_they_are_without_random_ones_first():
    weights = small_bilm().state_dict()
    bilm = BiLM.from_weights(small_config(), weights)
    for name, value in bilm.state_dict().items():
        assert value.data_ptr() == weights[name].data_ptr(), name


def test_the_encoder_runs_once_per_distinct_word():
    bilm = small_bilm()
    encoded = []
    bilm.encoder.register_forward_hook(lambda module, inputs, output: encoded.append(len(output)))
    with torch.no_grad():
        bilm(batch_to_ids([["a", "b", "a"], ["b", "a"]]))
    assert encoded == [4]  # a, b and the two markers


def test_distinct_rows_lead_back_to_the_rows():
    rows = torch.randint(0, 3, (200, 3), generator=torch.Generator().manual_seed(0))
    distinct, occurrences = distinct_rows(rows)
    assert torch.equal(distinct[occurrences], rows)
    assert len(distinct) == len(torch.unique(rows, dim=0))


def test_rows_whose_hashes_collide_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.zeros(3, dtype=torch.long))
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [1, 2, 3]])
    distinct, occurrences = distinct_rows(rows)
    assert len(distinct) == 2
    assert torch.equal(distinct[occurrences], rows)


@pytest.mark.filterwarnings("ignore::elmokit.errors.ElmoWarning")
def test_trimming_a_window_changes_nothing():
    bilm = small_bilm()
    ids = batch_to_ids([["a", "abcdef", "x" * 48, "y" * 60, "", "한국어"]])[0]
    with torch.no_grad():
        trimmed = bilm.encoder(ids)
        whole = torch.cat([bilm.encoder.convolve(word[None]) for word in ids])
        for highway in bilm.encoder.highways:
            whole = highway(whole)
        whole = bilm.encoder.projection(whole)
    assert_close(trimmed, whole)


@pytest.mark.filterwarnings("ignore::elmokit.errors.ElmoWarning")
def test_many_words_are_encoded_in_groups_of_similar_length():
    bilm = small_bilm()
    words = [["w" * (number % 47)] for number in range(1200)]
    ids = batch_to_ids(words)[:, 0]
    with torch.no_grad():
        together = bilm.encoder(ids)
        alone = torch.cat([bilm.encoder(word[None]) for word in ids[:60]])
    assert_close(together[:60], alone)


def test_word_ids_are_looked_up_and_wrapped_in_their_markers():
    bilm = small_bilm(encoder=WordEncoderConfig(5, begin_id=4, end_id=5))
    ids = torch.tensor([[1, 2, 3], [2, 0, 0]])
    with torch.no_grad():
        layers, _ = bilm(ids)
    table = bilm.encoder.words.weight
    assert torch.equal(layers.vectors[0, 1, :3, :6], table[[4, 2, 5]])
    assert layers.mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert layers.vectors[:, 1, 3:].eq(0).all()


def test_lengths_may_stand_on_another_device_than_the_vectors():
    bilm = small_bilm().to("meta")
    vectors = torch.zeros(2, 4, 6, device="meta")
    layers, _ = bilm.contextualize(vectors, torch.tensor([4, 3]))
    assert layers.vectors.shape == (3, 2, 4, 12)
    assert layers.mask.device.type == "meta"


def test_weights_written_to_behind_autograd_are_seen_once_told():
    bilm, ids = small_bilm(), batch_to_ids([["a", "b"], ["c"]])
    with torch.no_grad():
        before, _ = bilm(ids)
        bilm.forward_lstm.layers[0].recurrent_weight.data.mul_(3)
        bilm.weights_changed()
        after, _ = bilm(ids)
        expected, _ = BiLM.from_weights(bilm.config, bilm.state_dict())(ids)
    assert (before.vectors - after.vectors).abs().max() > 1e-3
    assert_agree(after.vectors, expected.vectors)


def test_a_replica_on_another_device_uses_its_own_weights():
    layer = small_bilm().forward_lstm.layers[0]
    state = LayerState(torch.zeros(1, 10), torch.zeros(1, 6))
    inputs = torch.randn(3, 6)
    with torch.no_grad():
        before, _ = layer(inputs, [1, 1, 1], state, "exact")
        replica = layer._replicate_for_data_parallel()
        for name, weight in layer.named_parameters():
            setattr(replica, name, weight * 5)
        after, _ = replica(inputs, [1, 1, 1], state, "exact")
    assert (before - after).abs().max() > 1e-3


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, TOLERANCE), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_other_types_of_numbers_work_in_both_precisions(dtype, within, precision):
    ids = batch_to_ids([["The", "river", "bank"], ["Money"]])
    with torch.no_grad():
        exact, _ = small_bilm()(ids)
        layers, _ = small_bilm().to(dtype)(ids, None, precision)
    assert layers.vectors.dtype == dtype
    assert_agree(layers.vectors, exact.vectors, within)


def test_words_of_another_length_are_refused():
    with pytest.raises(InputError, match="words have 40 characters; this model reads 50"):
        small_bilm()(batch_to_ids([["a"]], max_characters=40))


@pytest.mark.parametrize("way", [BFloat16Product, FBGEMMProduct, OneDNNProduct])
def test_fast_is_near_exact_and_does_not_depend_on_batch_mates(monkeypatch, way):
    if not products.works(way):
        pytest.skip(f"the CPU has no avx2, which {way.__name__} needs")
    monkeypatch.setattr(
        products, "best_way", lambda weight, precision: way if precision == "fast" else PlainProduct
    )
    bilm = small_bilm(token_size=32, cell_size=64)
    ids = batch_to_ids([["The", "river", "bank", "."], ["Money", "talks"]])
    with torch.no_grad():
        exact, _ = bilm(ids)
        fast, _ = bilm(ids, None, "fast")
        alone, _ = bilm(ids[1:, :2], None, "fast")
    near = torch.cosine_similarity(exact.vectors, fast.vectors, dim=-1)[:, exact.mask]
    assert near.min() > 0.99
    assert not torch.equal(fast.vectors, exact.vectors)
    assert_agree(fast.vectors[:, 1, :4], alone.vectors[:, 0])
