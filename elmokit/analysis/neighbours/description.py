"""What an index says of itself: the model, the text, the layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elmokit.analysis.neighbours.lance import Location, is_address, read_text, write_text
from elmokit.config import ModelConfig
from elmokit.errors import FormatError, InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.json_files import read_object, write_object

DESCRIPTION = "index.json"
TABLE = "description"
"""The same as a table, for those who read it from object storage."""
FORMAT, VERSION = "elmokit-neighbours", 1
DIGITS_SHOWN = 12
UNNAMED = "a model without a name"


@dataclass(frozen=True)
class Description:
    """What an index was made of, and how.

    Attributes:
        model: What the model was called.
        fingerprint: What its vectors depend on (`Embedder.fingerprint`).
        state: In which state sentences were read.
        tokenizer: What splits raw text, in the corpus and in questions.
        layers: The layers whose vectors are kept, by name: "0", "1", …, "average".
        vector_size: Size of a vector.
        sentences: How many different sentences there are.
        occurrences: How many words in them.
        forms: How many different words, capitals or not.
        vector_index: Whether vectors are found by an index; else all are compared.
        versions: Of the programs that made it.
        run: What the run depended on: the same run makes the same index.
    """

    model: str
    fingerprint: str
    state: str
    tokenizer: str
    layers: tuple[str, ...]
    vector_size: int
    sentences: int = 0
    occurrences: int = 0
    forms: int = 0
    vector_index: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def column(self, layer: str | int | None) -> str:
        """The name of a layer that is kept; without one, the last of them."""
        if layer is None:
            return self.layers[-1]
        if str(layer) not in self.layers:
            raise InputError(
                f"layer {layer} is not in the index, which keeps {', '.join(self.layers)}; choose "
                "one of them, or build an index with it (--layers)"
            )
        return str(layer)


def write_description(folder: Path, description: Description) -> None:
    """Write what an index says of itself: the file comes last, when all the rest is there."""
    values = {"format": FORMAT, "version": VERSION, **asdict(description)}
    write_text(folder, TABLE, json.dumps(values))
    with write_atomically(folder / DESCRIPTION) as path:
        write_object(values, path)


def read_description(location: Location) -> Description:
    """Read what an index says of itself; refuse a location that has none."""
    values = (
        json.loads(read_text(location, TABLE))
        if is_address(location)
        else read_file(Path(location))
    )
    found = values.pop("format", None), values.pop("version", None)
    if found != (FORMAT, VERSION):
        raise FormatError(
            f"{location}: is {found[0]} of version {found[1]}, not {FORMAT} of version {VERSION}; "
            "build the index anew"
        )
    try:
        return Description(**(values | {"layers": tuple(values["layers"])}))
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{location}: its description is damaged ({error}); build the index anew"
        ) from error


def read_file(folder: Path) -> dict[str, Any]:
    """The description in a folder."""
    if not is_index(folder):
        there = "is no index of occurrences" if folder.exists() else "is not there"
        raise InputError(f"{folder}: {there}; name a folder that `elmo neighbours build` has made")
    return read_object(folder / DESCRIPTION)


def is_index(folder: Path) -> bool:
    """Whether a folder is an index."""
    return (folder / DESCRIPTION).is_file()


def as_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values as they are read back from JSON: tuples as lists."""
    return json.loads(json.dumps(values))


def named_model(name: str, fingerprint: str) -> str:
    """A model's name with the beginning of its fingerprint.

    >>> named_model("english-small", "0123456789abcdef")
    'english-small (0123456789ab)'
    """
    return f"{name or UNNAMED} ({fingerprint[:DIGITS_SHOWN]})"


def layer_names(layers: str, config: ModelConfig) -> tuple[str, ...]:
    """The layers that a flag names, in their order: "all", or "top", "average", 0, 1 by commas."""
    numbers = [str(number) for number in range(config.layer_count)]
    if layers == "all":
        return tuple(numbers)
    asked = [name.strip() for name in layers.split(",")]
    names = {str(config.lstm_layers) if name == "top" else name for name in asked}
    known = [*numbers, "average"]
    unknown = sorted(names.difference(known))
    if unknown:
        raise InputError(
            f"layers is {layers!r}; use all, or some of top, {', '.join(known)} with commas between"
        )
    return tuple(name for name in known if name in names)
