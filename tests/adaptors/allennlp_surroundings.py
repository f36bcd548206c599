"""What AllenNLP's own tests need of AllenNLP that is not about ELMo: a plugin of pytest.

`FIXTURES` names the folder of the tests. `install()` is called first, as a program would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import TestCase

import torch

from elmokit.adaptors.allennlp import install
from elmokit.errors import ElmoError

TESTS = Path(os.environ["ALLENNLP_TESTS"])
Ids = dict[str, list[Any]]


class AllenNlpTestCase(TestCase):
    FIXTURES_ROOT = TESTS / "fixtures"

    def set_up_model(self, *files: Path) -> None:
        """There are no task models."""


class Token(NamedTuple):
    text: str


class Vocabulary:
    def __init__(self) -> None:
        self.ids = {"@@PADDING@@": 0, "@@UNKNOWN@@": 1}

    @classmethod
    def from_instances(cls, instances: Sequence[Instance]) -> Vocabulary:
        vocabulary = cls()
        for instance in instances:
            for token in instance.field.tokens:
                vocabulary.ids.setdefault(token.text, len(vocabulary.ids))
        return vocabulary

    def get_token_to_index_vocabulary(self, namespace: str) -> dict[str, int]:
        return self.ids


class SingleIdTokenIndexer:
    def tokens_to_indices(self, tokens: Sequence[Token], vocabulary: Any, name: str) -> Ids:
        return {name: [vocabulary.ids.get(token.text, 1) for token in tokens]}

    def as_padded_tensor(self, ids: Ids, lengths: dict[str, int], _: Any) -> dict[str, Any]:
        return {
            name: torch.tensor(row + [0] * (lengths[name] - len(row))) for name, row in ids.items()
        }


class TextField(NamedTuple):
    tokens: Sequence[Token]
    indexers: dict[str, Any]


class Instance:
    def __init__(self, fields: dict[str, TextField]) -> None:
        [(self.name, self.field)] = fields.items()


class Batch:
    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = instances

    def index_instances(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def as_tensor_dict(self) -> dict[str, dict[str, torch.Tensor]]:
        fields = [instance.field for instance in self.instances]
        longest = max(len(field.tokens) for field in fields)
        tensors = {}
        for name, indexer in fields[0].indexers.items():
            rows = [
                indexer.as_padded_tensor(
                    indexer.tokens_to_indices(field.tokens, self.vocabulary, name),
                    {name: longest},
                    {},
                )[name]
                for field in fields
            ]
            tensors[name] = torch.stack(rows)
        return {self.instances[0].name: tensors}


class BasicIterator:
    def __init__(self, size: int) -> None:
        self.size = size

    def index_with(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __call__(self, instances: Sequence[Instance], **_: Any) -> Iterator[Any]:
        for start in range(0, len(instances), self.size):
            batch = Batch(instances[start : start + self.size])
            batch.index_instances(self.vocabulary)
            yield batch.as_tensor_dict()


class NotHere:
    """A part of AllenNLP that is not about ELMo's vectors."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError

    from_params = __init__


SURROUNDINGS: dict[str, dict[str, Any]] = {
    "allennlp.common": {"Params": dict},
    "allennlp.common.checks": {"ConfigurationError": ElmoError},
    "allennlp.common.testing": {
        "AllenNlpTestCase": AllenNlpTestCase,
        "ModelTestCase": AllenNlpTestCase,
    },
    "allennlp.commands.train": {"train_model": NotHere},
    "allennlp.data": {"Token": Token, "Vocabulary": Vocabulary, "Instance": Instance},
    "allennlp.data.token_indexers.single_id_token_indexer": {
        "SingleIdTokenIndexer": SingleIdTokenIndexer
    },
    "allennlp.data.dataset": {"Batch": Batch},
    "allennlp.data.fields": {"TextField": TextField},
    "allennlp.data.iterators": {"BasicIterator": BasicIterator},
    "allennlp.modules.token_embedders": {"ElmoTokenEmbedderMultiLang": NotHere},
    "allennlp.tests": {"__path__": [str(TESTS)]},
}

install()
for module, names in SURROUNDINGS.items():
    vars(sys.modules.setdefault(module, ModuleType(module))).update(names)
