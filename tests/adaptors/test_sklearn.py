"""ELMo in scikit-learn's pipelines and searches."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptors.allennlp_samples import LAYERS, SIZE, Files
from closeness import assert_close
from helpers import error_of

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


# Vectors


def test_texts_are_split_on_spaces_or_by_a_function_on_demand(
    files: Files, embedder: Embedder
) -> None:
    on_spaces = ElmoVectorizer(files, tokenizer="spaces").transform(TEXTS)
    by_function = ElmoVectorizer(files, tokenizer=str.split).transform(["one  two"])

    assert_close(on_spaces, hub.Module(files)(TEXTS).detach().numpy())
    assert_close(by_function[0], embedder.embed([["one", "two"]])[0].mean(0))


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
    assert vectors.dtype == np.float32
    assert not vectors[1].any()
    assert len(vectorizer.get_feature_names_out()) == vectors.shape[1]


def test_features_have_names(files: Files) -> None:
    names = ElmoVectorizer(files).get_feature_names_out()
    all_names = ElmoVectorizer(files, layers="all", pool="mean+max").get_feature_names_out()

    assert names.tolist() == [f"mean_average_{place}" for place in range(SIZE)]
    assert all_names[:: 2 * SIZE].tolist() == ["mean_layer0_0", "mean_layer2_0", "max_layer1_0"]
    assert len(set(all_names)) == 2 * LAYERS * SIZE


def test_texts_are_read_once_for_all_layers_pools_and_copies(
    files: Files, count_reading: Any
) -> None:
    unload_models()
    counts = count_reading(load_shared(files).embedder)

    first = ElmoVectorizer(files).fit(TEXTS)
    first.transform(TEXTS)
    clone(first).set_params(layers="top", pool="max").transform(TEXTS)

    assert sum(counts) == 4  # sentences
    few = ElmoVectorizer(files, batch_size=2, cache_megabytes=0).transform(TEXTS)
    assert sum(counts) == 8
    assert_close(few, first.transform(TEXTS))


# Conventions


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
    check_is_fitted(ElmoVectorizer())  # there is nothing to fit


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


def test_model_in_the_working_folder_is_found_from_another(
    relative: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectorizer = ElmoVectorizer(relative).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)

    fitted, new = pickle.dumps(vectorizer), pickle.dumps(clone(vectorizer))
    monkeypatch.chdir("elsewhere")

    for written in (fitted, new):
        assert np.array_equal(pickle.loads(written).transform(TEXTS), expected)
    error = error_of(vectorizer.transform, TEXTS, kind=InputError)
    assert "set_params(model=…)" in error  # out of sight
    assert vectorizer.get_params()["model"] is relative
    assert clone(vectorizer).get_params()["model"] == relative


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
        error = error_of(loaded.transform, TEXTS, kind=InputError, after=f"{folder}: ")
        assert "set_params(model=…)" in error
        moved = loaded.set_params(model=tmp_path / "after")
        assert np.array_equal(moved.transform(TEXTS), expected)


def test_another_model_than_it_was_fitted_with_is_an_error(
    files: Files, other_files: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(files[0].parent, folder)
    vectorizer = ElmoVectorizer(folder).fit(TEXTS)
    shutil.copy(other_files[1], folder / files[1].name)

    assert "is another model" in error_of(vectorizer.transform, TEXTS, kind=InputError)
    moved = vectorizer.set_params(model=files)
    assert np.array_equal(moved.transform(TEXTS), ElmoVectorizer(files).transform(TEXTS))
    assert clone(vectorizer).set_params(model=folder).transform(TEXTS).any()


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
        ({}, None, "texts is None"),
        ({"layers": 3}, ["a"], "layers is 3; use 'average', 'sum', 'top', 'all', 0 to 2"),
        ({"pool": "sum"}, ["a"], "pool is 'sum'"),
        ({"tokenizer": "treebank"}, ["a"], "tokenizer is 'treebank'"),
        ({"model": "no-such-folder"}, ["a"], "there is no such file"),
    ],
)
def test_what_cannot_be_is_one_line(files: Files, settings: Any, given: Any, message: str) -> None:
    vectorizer = ElmoVectorizer(**({"model": files} | settings))

    with pytest.raises(ElmoError, match=message) as error:
        vectorizer.fit(given).transform(given)

    assert isinstance(error.value, InputError | ConfigError)
