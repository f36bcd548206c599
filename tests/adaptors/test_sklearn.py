"""ELMo in scikit-learn's pipelines and searches."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allennlp_samples import LAYERS, SIZE, Files
from closeness import assert_close

pytest.importorskip("sklearn", reason="scikit-learn is an extra: elmokit[sklearn]")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from elmokit.adaptors import tensorflow_hub as hub
from elmokit.adaptors.sklearn import ElmoVectorizer
from elmokit.adaptors.text_reader import MODELS_AT_ONCE, load_shared, unload_models
from elmokit.errors import ConfigError, ElmoError, InputError
from elmokit.inference.embedder import Embedder

TEXTS = ["The river bank.", "", "A bank account. Money!", "Money talks."]
GOOD = ["a good film", "good , good", "what a good day", "good to see", "so good", "good"]
BAD = ["a bad film", "bad , bad", "what a bad day", "bad to see", "so bad", "bad"]
LABELS = ["good"] * len(GOOD) + ["bad"] * len(BAD)


@pytest.fixture
def embedder(files: Files) -> Embedder:
    return Embedder.load(*files)


def word_layers(embedder: Embedder, text: str) -> np.ndarray:
    """(layers, words, size) of a text; one word of zeros where it has none."""
    sentences = embedder.split(text)
    if not sentences:
        return np.zeros((LAYERS, 1, SIZE), np.float32)
    return np.concatenate(embedder.embed_layers(sentences), axis=1)


def count_reading(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of sentences whenever the biLM has to read some."""
    counts: list[int] = []
    stream = embedder.embed_stream

    def counted(sentences: Any, layers: str) -> Any:
        listed = list(sentences)
        counts.append(len(listed))
        return stream(listed, layers)

    monkeypatch.setattr(embedder, "embed_stream", counted)
    return counts


# Vectors


def test_vectors_are_those_that_the_embedder_gives(files: Files, embedder: Embedder) -> None:
    vectors = ElmoVectorizer(files).fit_transform(TEXTS)

    assert vectors.shape == (4, SIZE)
    assert vectors.dtype == np.float32
    assert_close(vectors, embedder.encode(TEXTS))
    assert not vectors[1].any()


def test_texts_split_on_spaces_are_those_of_the_hub(files: Files) -> None:
    vectors = ElmoVectorizer(files, tokenizer="spaces").transform(TEXTS)

    assert_close(vectors, hub.Module(files)(TEXTS).detach().numpy())


def test_function_may_give_the_words(files: Files, embedder: Embedder) -> None:
    vectors = ElmoVectorizer(files, tokenizer=str.split).transform(["one  two"])

    expected = embedder.embed([["one", "two"]])[0].mean(0)
    assert_close(vectors[0], expected)


@pytest.mark.parametrize("layer", ["average", "top", "all", 0, 1, np.int64(2)])
@pytest.mark.parametrize("pool", ["mean", "max", "mean+max"])
def test_layer_and_pool_say_what_is_kept(
    files: Files, embedder: Embedder, layer: Any, pool: Any
) -> None:
    vectorizer = ElmoVectorizer(files, layers=layer, pool=pool)

    vectors = vectorizer.transform(TEXTS)

    for vector, text in zip(vectors, TEXTS, strict=True):
        layers = word_layers(embedder, text)
        rows: dict[Any, Any] = {"average": [layers.mean(0)], "top": [layers[-1]], "all": layers}
        kept = rows[layer] if isinstance(layer, str) else [layers[layer]]
        means, largest = ([pooled(row, axis=0) for row in kept] for pooled in (np.mean, np.max))
        parts = {"mean": means, "max": largest, "mean+max": means + largest}[pool]
        assert_close(vector, np.concatenate(parts))
    assert len(vectorizer.get_feature_names_out()) == vectors.shape[1]


def test_features_have_names(files: Files) -> None:
    names = ElmoVectorizer(files).get_feature_names_out()
    all_names = ElmoVectorizer(files, layers="all", pool="mean+max").get_feature_names_out()

    assert names.tolist() == [f"mean_average_{place}" for place in range(SIZE)]
    assert all_names[:: 2 * SIZE].tolist() == ["mean_layer0_0", "mean_layer2_0", "max_layer1_0"]
    assert len(set(all_names)) == 2 * LAYERS * SIZE


def test_batches_change_nothing_but_memory(files: Files) -> None:
    few = ElmoVectorizer(files, batch_size=2, cache_megabytes=0).transform(TEXTS)

    assert_close(few, ElmoVectorizer(files).transform(TEXTS))


def test_texts_are_read_once_for_all_layers_pools_and_copies(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    unload_models()
    counts = count_reading(load_shared(files).embedder, monkeypatch)

    first = ElmoVectorizer(files).fit(TEXTS)
    first.transform(TEXTS)
    clone(first).set_params(layers="top", pool="max").transform(TEXTS)

    assert sum(counts) == 4  # sentences
    ElmoVectorizer(files, cache_megabytes=0).transform(TEXTS)
    assert sum(counts) == 8


# Conventions


def test_parameters_can_be_read_set_and_cloned(files: Files) -> None:
    vectorizer = ElmoVectorizer(files, layers=1, pool="max").fit(TEXTS)

    copied = clone(vectorizer)

    assert copied.get_params() == vectorizer.get_params()
    assert not hasattr(copied, "model_checksum_")
    assert copied.set_params(layers="top").get_params()["layers"] == "top"
    assert repr(ElmoVectorizer(layers=1)) == "ElmoVectorizer(layers=1)"
    check_is_fitted(copied)  # there is nothing to fit


# Those that need no numbers: all others give tables of them, where this takes texts.
CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
]


@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_scikit_learn_pass(check: str) -> None:
    getattr(estimator_checks, check)("ElmoVectorizer", ElmoVectorizer())


def test_pickle_names_the_model_and_does_not_hold_it(files: Files) -> None:
    folder = str(files[0].parent)
    pipeline = make_pipeline(ElmoVectorizer(folder), LogisticRegression())
    pipeline.fit(GOOD + BAD, LABELS)

    written = pickle.dumps(pipeline)

    assert len(written) < 3000
    assert folder.encode() in written
    assert (
        pickle.loads(written).predict(GOOD + BAD).tolist() == pipeline.predict(GOOD + BAD).tolist()
    )


@pytest.mark.parametrize("name", ["bm", ("bm/options.json", Path("bm/weights.hdf5"))])
def test_model_in_the_working_folder_is_found_from_another(
    files: Files, name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bm").mkdir()
    shutil.copy(files[0], tmp_path / "bm/options.json")
    shutil.copy(files[1], tmp_path / "bm/weights.hdf5")
    monkeypatch.chdir(tmp_path)
    vectorizer = ElmoVectorizer(name).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)

    fitted, new = pickle.dumps(vectorizer), pickle.dumps(clone(vectorizer))
    monkeypatch.chdir("elsewhere")

    for written in (fitted, new):
        assert np.array_equal(pickle.loads(written).transform(TEXTS), expected)
    assert vectorizer.get_params()["model"] is name
    assert clone(vectorizer).get_params()["model"] == name


@pytest.mark.parametrize("model", [None, "english-small", "https://tfhub.dev/google/elmo/3", 1])
def test_pickle_keeps_what_is_no_path_as_it_is(model: Any) -> None:
    assert pickle.loads(pickle.dumps(ElmoVectorizer(model))).model == model


def test_model_that_is_gone_is_one_line_with_the_remedy(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "before"
    shutil.copytree(files[0].parent, folder)
    vectorizer = ElmoVectorizer(folder).fit(TEXTS)
    pickles = [pickle.dumps(vectorizer), pickle.dumps(clone(vectorizer))]
    expected = vectorizer.transform(TEXTS)
    folder.rename(tmp_path / "after")

    for loaded in map(pickle.loads, pickles):
        with pytest.raises(InputError, match=r"before: .*set_params\(model=…\)") as error:
            loaded.transform(TEXTS)
        assert "\n" not in str(error.value)
        moved = loaded.set_params(model=tmp_path / "after")
        assert np.array_equal(moved.transform(TEXTS), expected)


def test_fitted_vectorizer_whose_relative_folder_is_out_of_sight_has_the_remedy(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files[0].parent.parent)
    vectorizer = ElmoVectorizer(files[0].parent.name).fit(TEXTS)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError, match=r"there is no such .*set_params\(model=…\)"):
        vectorizer.transform(TEXTS)


def test_misspelt_name_has_the_names_that_there_are() -> None:
    with pytest.raises(InputError, match="did you mean 'english-small'"):
        ElmoVectorizer("english-smal").fit(TEXTS)


def test_another_model_than_it_was_fitted_with_is_refused(
    files: Files, other_files: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(files[0].parent, folder)
    vectorizer = ElmoVectorizer(folder).fit(TEXTS)
    shutil.copy(other_files[1], folder / files[1].name)

    with pytest.raises(InputError, match="another model than the one trained with") as error:
        vectorizer.transform(TEXTS)

    assert "\n" not in str(error.value)
    moved = vectorizer.set_params(model=files)
    assert np.abs(moved.transform(TEXTS) - ElmoVectorizer(files).transform(TEXTS)).max() == 0
    assert np.abs(clone(vectorizer).set_params(model=folder).transform(TEXTS)).max() > 0


def test_model_is_loaded_once_while_its_files_stay_the_same(
    files: Files, other_files: Files
) -> None:
    loaded = load_shared(files)

    assert load_shared([str(file) for file in files]) is loaded
    assert load_shared(files, precision="fast").embedder is not loaded.embedder
    assert load_shared(other_files).checksum != loaded.checksum
    assert MODELS_AT_ONCE == 2
    assert load_shared(files) is not loaded  # the two others have taken its place
    assert load_shared(files).checksum == loaded.checksum


# With the rest of scikit-learn


def test_grid_search_goes_over_layers_and_pools(files: Files) -> None:
    steps = [("elmo", ElmoVectorizer(files)), ("scale", StandardScaler())]
    pipeline = Pipeline([*steps, ("classify", LogisticRegression())])
    grid = {"elmo__layers": ["average", "top", "all", 0], "elmo__pool": ["mean", "max"]}

    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(GOOD + BAD, LABELS)

    assert len(search.cv_results_["params"]) == 8
    assert search.best_score_ > 0.7
    assert search.predict(["a good thing"]).shape == (1,)


def test_column_of_a_table_goes_through_a_column_transformer(files: Files) -> None:
    table = np.array([[text, len(text)] for text in TEXTS], dtype=object)
    columns = ColumnTransformer([("elmo", ElmoVectorizer(files), 0), ("size", "passthrough", [1])])

    vectors = columns.fit_transform(table)

    assert vectors.shape == (4, SIZE + 1)
    assert columns.get_feature_names_out()[0] == "elmo__mean_average_0"


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({}, "one text", r"expected a list of texts, got one; write \['one text'\]"),
        ({}, [], "there are no texts; give a list of at least one"),
        ({}, ["a", float("nan")], r"text 1 is nan \(float\), not a string"),
        ({}, [["a", "b"]], "text 0 is .*, not a string"),
        ({}, None, "texts is None"),
        ({"layers": 3}, ["a"], "layers is 3; use 'average', 'top', 'all', 0 to 2"),
        ({"layers": True}, ["a"], "layers is True"),
        ({"layers": "middle"}, ["a"], "layers is 'middle'"),
        ({"pool": "sum"}, ["a"], "pool is 'sum'"),
        ({"tokenizer": "treebank"}, ["a"], "tokenizer is 'treebank'"),
        ({"batch_size": 0}, ["a"], "batch_size is 0"),
        ({"precision": "double"}, ["a"], "precision is 'double'"),
        ({"device": "abacus"}, ["a"], "device 'abacus' cannot be used"),
        ({"model": "no-such-folder"}, ["a"], "there is no such file"),
    ],
)
def test_what_cannot_be_is_one_line(files: Files, settings: Any, given: Any, message: str) -> None:
    vectorizer = ElmoVectorizer(**({"model": files} | settings))

    with pytest.raises(ElmoError, match=message) as error:
        vectorizer.fit(given).transform(given)

    assert isinstance(error.value, InputError | ConfigError)
    assert "\n" not in str(error.value)
