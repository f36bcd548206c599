from __future__ import annotations

import copy
import hashlib
import json
import pickle

import numpy as np
import pytest
import torch
from closeness import assert_agree, assert_close
from helpers import error_of
from small_models import COUNTED, small_bilm, small_embedder, write_language_model

from elmokit import Embedder, LanguageModel
from elmokit.config import WordEncoderConfig
from elmokit.errors import ConfigError, ElmoError, ElmoWarning, InputError
from elmokit.formats.convert import convert_model
from elmokit.formats.native import SavedModel, write_model
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.text.vocabulary import Vocabulary

SENTENCES = [["The", "river", "bank", "."], ["A", "bank"], [], ["은행", "🏦", "naïve"]]


def test_each_sentence_is_an_array_of_its_words_in_each_layer():
    embedder = small_embedder()
    vectors, layers = embedder.embed(SENTENCES), embedder.embed_layers(SENTENCES)
    assert [array.shape for array in vectors] == [(4, 12), (2, 12), (0, 12), (3, 12)]
    assert all(array.dtype == np.float32 for array in vectors)
    assert [array.shape for array in layers] == [(3, 4, 12), (3, 2, 12), (3, 0, 12), (3, 3, 12)]
    np.testing.assert_array_equal(layers[0][0, :, :6], layers[0][0, :, 6:])


def test_a_layer_can_be_chosen():
    embedder = small_embedder()
    layers = embedder.embed_layers(SENTENCES)
    assert_agree(embedder.embed(SENTENCES), [array.mean(0) for array in layers])
    assert_agree(embedder.embed(SENTENCES, layers="top"), [array[2] for array in layers])
    for number in range(3):
        assert_agree(embedder.embed(SENTENCES, layers=number), [array[number] for array in layers])


def test_layer_0_needs_no_lstm_unless_its_state_is_carried(monkeypatch):
    plain, carries, whole = small_embedder(), *(small_embedder(state="carry") for _ in range(2))
    expected = whole.embed_layers(SENTENCES)
    carries.embed(SENTENCES, layers=0)
    assert_agree(carries.embed(SENTENCES), whole.embed(SENTENCES))
    monkeypatch.setattr("elmokit.model.bilm.run_direction", None)
    assert_agree(plain.embed(SENTENCES, layers=0), [array[0] for array in expected])
    with pytest.raises(TypeError):
        plain.embed(SENTENCES, layers=1)


def test_layer_0_is_computed_once_however_often_sentences_are_read(monkeypatch):
    embedder, passes = small_embedder(state="warm", warm_runs=3), []
    contextualize = embedder.bilm.contextualize
    monkeypatch.setattr(
        embedder.bilm, "contextualize", lambda *given: passes.append(1) or contextualize(*given)
    )
    expected = [array[0] for array in embedder.embed_layers(SENTENCES)]
    assert len(passes) == 3
    assert_agree(embedder.embed(SENTENCES, layers=0), expected)
    assert len(passes) == 4


def test_a_trained_mix_can_be_given():
    embedder = small_embedder()
    mix = ScalarMix(3, weights=[0.0, 2.0, -1.0])
    shares = mix.shares().detach().numpy()
    expected = [np.tensordot(shares, array, 1) for array in embedder.embed_layers(SENTENCES)]
    assert_agree(embedder.embed(SENTENCES, layers=mix), expected)
    added = embedder.encode(["a b", ""], layers=DirectionalMix(3, join="add"))
    assert added.shape == (2, 6)


@pytest.mark.parametrize("layer", [3, -1, "bottom", 1.5, True, None])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(InputError, match="use 'average', 'sum', 'top', 'all', 0 to 2, or a mix"):
        small_embedder().embed(SENTENCES, layers=layer)


def test_a_stream_gives_what_a_list_gives_without_reading_ahead(monkeypatch):
    monkeypatch.setattr("elmokit.inference.embedder.TOKENS_PER_WINDOW", 5)
    embedder = small_embedder()
    taken = []

    def source():
        for sentence in SENTENCES * 3:
            taken.append(sentence)
            yield sentence

    stream = embedder.embed_stream(source())
    first = next(stream)
    assert len(taken) == 2
    assert_agree([first, *stream], embedder.embed(SENTENCES * 3))
    assert_agree(embedder.embed_stream(SENTENCES, "all"), embedder.embed_layers(SENTENCES))


def test_an_empty_list_gives_an_empty_list():
    for state in ("zero", "carry", "warm"):
        embedder = small_embedder(state=state)
        assert embedder.embed([]) == []
        assert embedder.embed_layers([]) == []
        assert list(embedder.embed_stream([])) == []


def test_a_sentence_vector_is_the_mean_over_real_words_only():
    embedder = small_embedder()
    texts = ["The river bank .", "A bank", "", "   "]
    words = embedder.embed([text.split() for text in texts], 0)
    expected = [*(array.mean(0) for array in words[:2]), np.zeros(12), np.zeros(12)]
    assert_close(embedder.encode(texts), np.stack(expected))


@pytest.mark.parametrize("layers", ["average", 0, "top"])
@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_text_is_pooled_over_the_words_of_all_its_sentences(pool, layers):
    embedder = small_embedder()
    words = np.concatenate(embedder.embed([["a", "b", "c"], ["d"]], layers))
    expected = getattr(words, pool)(0)
    heard = []
    found = embedder.encode(
        ["a b c\nd", "", "d"], layers, pool, progress=lambda *n: heard.append(n)
    )
    assert_close(found[0], expected)
    assert not found[1].any()
    assert heard == [(1, 3), (2, 3), (3, 3)]
    assert_close(embedder.encode("a b c\nd", layers, pool), expected)
    unit = embedder.encode(["a b c\nd", ""], layers, pool, normalize=True)
    assert_close(unit, [expected / np.linalg.norm(expected), np.zeros(12)])


def test_a_text_has_one_vector_of_one_pool():
    assert "layers is 'all'" in error_of(small_embedder().encode, ["a"], "all", kind=InputError)
    for pool in ("none", None, "sum"):
        assert "pool is" in error_of(small_embedder().encode, ["a"], pool=pool, kind=ElmoError)


def test_raw_text_is_split_by_the_model_s_tokenizer():
    assert small_embedder().tokenize("The river bank.") == ["The", "river", "bank."]
    default = small_embedder(tokenizer="default")
    assert default.tokenize("The river bank.") == ["The", "river", "bank", "."]


def test_what_is_no_text_is_refused():
    for call, wrong in ((small_embedder().tokenize, 3), (small_embedder().encode, [3])):
        assert "expected a text, got 3" in error_of(call, wrong, kind=InputError)


def test_carried_state_continues_and_can_be_reset():
    embedder = small_embedder(state="carry")
    first = embedder.embed(SENTENCES)
    second = embedder.embed(SENTENCES)
    assert np.abs(first[0] - second[0]).max() > 1e-3
    embedder.reset_state()
    assert_agree(embedder.embed(SENTENCES), first)


def test_training_the_encoder_empties_the_word_cache():
    embedder = small_embedder()
    before = embedder.embed(SENTENCES, layers=0)
    with torch.no_grad():
        embedder.bilm.encoder.projection.weight.mul_(2)
    after = embedder.embed(SENTENCES, layers=0)
    assert np.abs(before[0] - after[0]).max() > 1e-2


def test_unusual_words_are_accepted_reported_and_counted():
    embedder = small_embedder()
    with pytest.warns(ElmoWarning, match="longer than the model reads"):
        vectors = embedder.embed([["x" * 60, "ok", "x" * 60]])
    assert vectors[0].shape == (3, 12)
    assert embedder.unusual.counts == {"cut": 2}


def test_word_input_needs_and_uses_a_vocabulary():
    words = ["<S>", "</S>", "<UNK>", "bank", "river"]
    bilm = small_bilm(encoder=WordEncoderConfig(5))
    embedder = Embedder(bilm, vocabulary=Vocabulary(words), tokenizer="whitespace")
    known, unknown = embedder.embed([["bank"], ["zebra"]], layers=0)
    table = bilm.encoder.words.weight.detach().numpy()
    np.testing.assert_array_equal(known[0, :6], table[4])
    np.testing.assert_array_equal(unknown[0, :6], table[3])
    with pytest.raises(InputError, match="give its vocabulary"):
        Embedder(bilm)
    with pytest.raises(InputError, match="has 2 words, the model 5"):
        Embedder(bilm, vocabulary=Vocabulary(["a", "b"]))


def test_a_folder_records_its_tokenizer(tmp_path):
    bilm = small_bilm()
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="default")
    write_model(tmp_path / "model", saved)
    embedder = Embedder.load(tmp_path / "model")
    assert embedder.tokenize("It's here.") == ["It", "'s", "here", "."]
    assert embedder.vector_size == 12
    assert_agree(embedder.embed(SENTENCES), small_embedder().embed(SENTENCES))
    other = Embedder.load(tmp_path / "model", tokenizer="whitespace")
    assert other.tokenize("It's here.") == ["It's", "here."]


@pytest.mark.parametrize("target", ["native", "allennlp"])
def test_the_softmax_is_not_read_unless_it_is_asked_for(tmp_path, target):
    convert_model([write_language_model(tmp_path / "model")], tmp_path / target, target=target)
    names = [tmp_path / target]
    lean, complete = Embedder.load(*names), Embedder.load(*names, softmax=True)
    assert lean.bilm.softmax is None
    assert lean.vocabulary is None
    assert complete.bilm.softmax is not None
    assert (lean.config, lean.fingerprint()) == (complete.config, complete.fingerprint())
    assert_agree(lean.embed(SENTENCES), complete.embed(SENTENCES))
    with pytest.raises(InputError, match="has no softmax"):
        LanguageModel(lean.bilm, COUNTED)


def test_an_embedder_says_what_it_is():
    expected = "Embedder(3 layers of 12, state='carry', precision='exact')"
    assert repr(small_embedder(state="carry")) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state": "hot"}, "state is 'hot'"),
        ({"precision": "double"}, "precision is 'double'"),
        ({"warm_runs": 0}, "warm_runs is 0"),
        ({"tokenizer": "nltk"}, "tokenizer is 'nltk'"),
    ],
)
def test_an_unknown_setting_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        small_embedder(**settings)


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_model_may_change_its_type_between_calls(state):
    embedder = small_embedder(state=state)
    embedder.embed(SENTENCES)
    for change in (torch.nn.Module.double, torch.nn.Module.float):
        change(embedder.bilm)
        assert embedder.embed(SENTENCES)[0].shape == (4, 12)


def test_a_copy_or_an_unpickled_embedder_gives_the_same_vectors():
    embedder = small_embedder(warm_runs=3, cache_words=7)
    expected = embedder.embed(SENTENCES)
    for other in (copy.deepcopy(embedder), pickle.loads(pickle.dumps(embedder))):
        assert other.bilm is not embedder.bilm
        assert other.warm_runs == 3
        assert_agree(other.embed(SENTENCES), expected)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="device 'cuda:99' cannot be used"):
        small_embedder(device="cuda:99")
    with pytest.raises(InputError, match="holds no numbers"):
        small_embedder(device="meta")


@pytest.mark.parametrize("state", ["zero", "carry"])
@pytest.mark.parametrize("sentences", [None, 5, {"a": ["b"]}, "The river bank"])
def test_what_is_no_list_is_refused_in_every_state(state, sentences):
    with pytest.raises(InputError, match="expected a list of sentences"):
        small_embedder(state=state).embed(sentences)


def test_a_stream_names_a_bad_sentence_by_its_number_in_the_stream(monkeypatch):
    monkeypatch.setattr("elmokit.inference.embedder.TOKENS_PER_WINDOW", 2)
    with pytest.raises(InputError, match="sentence 3 is 7"):
        list(small_embedder().embed_stream([["a", "b"], ["c", "d"], ["e"], 7]))
    for other in (5, "The river bank"):
        with pytest.raises(InputError, match="expected a list of sentences, got"):
            list(small_embedder().embed_stream(other))


def test_texts_that_are_no_list_are_refused():
    with pytest.raises(InputError, match="expected a list of texts"):
        small_embedder().encode(None)


def test_a_mix_of_another_number_of_layers_is_refused():
    with pytest.raises(InputError, match="the mix is of 2 layers, the model has 3"):
        small_embedder().embed(SENTENCES, layers=ScalarMix(2))


def test_rows_of_a_carried_stream_do_not_depend_on_the_length_of_sentences(monkeypatch):
    expected = list(small_embedder(state="carry").embed_stream(SENTENCES * 20))
    monkeypatch.setattr("elmokit.inference.embedder.TOKENS_PER_WINDOW", 3)
    assert_agree(small_embedder(state="carry").embed_stream(SENTENCES * 20), expected)


def test_markers_of_a_word_input_vocabulary_must_be_where_the_model_has_them():
    bilm = small_bilm(encoder=WordEncoderConfig(4))
    for words in (["</S>", "<S>", "<UNK>", "a"], ["a", "b", "c", "<UNK>"]):
        with pytest.raises(InputError, match="does not have '<S>' as word 0"):
            Embedder(bilm, vocabulary=Vocabulary(words))


def test_a_fingerprint_is_of_the_config_the_names_and_the_values():
    bilm = small_bilm(softmax_words=7)
    expected = hashlib.sha256(json.dumps(bilm.config.to_dict(), sort_keys=True).encode())
    for name, value in sorted(bilm.state_dict().items()):
        if "softmax" not in name:
            expected.update(name.encode() + value.numpy().tobytes())
    assert Embedder(bilm).fingerprint() == expected.hexdigest()


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


def test_a_tokenizer_of_the_user_splits_raw_text(tmp_path):
    folder = write_language_model(tmp_path / "model")
    by_commas = Embedder.load(folder, tokenizer=lambda text: text.split(","))
    assert by_commas.split("a,b c") == [["a", "b c"]]
    np.testing.assert_array_equal(
        by_commas.encode("a,b c"), by_commas.embed([["a", "b c"]], 0, pool="mean")[0]
    )


@pytest.mark.parametrize("given", [(), ("english-small",)])
def test_who_makes_an_embedder_of_no_bilm_is_told_of_load(given):
    with pytest.raises(InputError, match=r"Embedder\.load\(\) is that of a model"):
        Embedder(*given)
