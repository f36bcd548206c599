from __future__ import annotations

import subprocess
import sys

import pytest

import elmokit

NAMES = [
    "BiLM",
    "CachedEmbedder",
    "CharacterEncoderConfig",
    "ConfigError",
    "Elmo",
    "ElmoError",
    "ElmoWarning",
    "Embedder",
    "FormatError",
    "InputError",
    "LanguageModel",
    "ModelConfig",
    "NeighbourIndex",
    "PretrainConfig",
    "ScalarMix",
    "StaticVectors",
    "TextSettings",
    "TrainedTask",
    "VectorSettings",
    "Vocabulary",
    "WithPredicates",
    "batch_to_ids",
    "build_index",
    "convert_model",
    "embed_files",
    "open_input",
    "open_vectors",
    "pretrain",
    "read_run",
    "read_vectors",
    "task_config",
    "train_task",
    "write_vectors",
]


def test_the_public_names_are_these_and_can_all_be_imported():
    assert elmokit.__all__ == NAMES
    for name in NAMES:
        assert getattr(elmokit, name).__name__ == name
        assert name in dir(elmokit)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Ernie'"):
        elmokit.Ernie  # noqa: B018


@pytest.mark.parametrize(
    "statement", ["import elmokit", "import elmokit.cli", "import elmokit.text.tokenizer"]
)
def test_importing_is_cheap(statement):
    code = f"import sys; {statement}; print({{'torch', 'nltk', 'h5py'}} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"
