"""What is made of sentences and how it is written, from the command line down to the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from elmokit.config import check_choice

Pool = Literal["none", "mean", "max"]
DType = Literal["float32", "float16"]
Description = Mapping[str, str | int | float | None]


@dataclass(frozen=True)
class VectorSettings:
    """What is made of each sentence, and how it is written.

    Attributes:
        layers: "average", "top", "all", the number of a layer ("0" is the token layer), or "mix".
        mix: The file of a trained mix, where layers is "mix".
        pool: "mean" or "max" over the words of a sentence; "none" keeps the words.
        dtype: "float32" or "float16".
        compression: One that the format has; None is none.
        keep_sentences: Write the sentences too.
        description: What the file is to remember of its vectors, such as which `layers` they are
            of. Bulk embedding knows and fills it in; of arrays from elsewhere, writers know
            nothing but this.
    """

    layers: str = "average"
    mix: str | None = None
    pool: Pool = "none"
    dtype: DType = "float32"
    compression: str | None = None
    keep_sentences: bool = True
    description: Description | None = None

    def __post_init__(self) -> None:
        check_choice("pool", self.pool, get_args(Pool))
        check_choice("dtype", self.dtype, get_args(DType))

    @property
    def pooled(self) -> bool:
        """Whether a sentence has one vector, in each layer, instead of one for each word."""
        return self.pool != "none"


DEFAULTS = VectorSettings()
