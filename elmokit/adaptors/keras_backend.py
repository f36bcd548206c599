"""Keras on torch, or one line that says what to do."""

from __future__ import annotations

import os
import sys
from typing import Any

from elmokit.errors import InputError

BACKEND = "KERAS_BACKEND"


def import_keras() -> Any:
    """Import Keras with its torch backend, which is chosen here unless somebody chose before."""
    chosen_before = BACKEND in os.environ
    try:
        if "keras" not in sys.modules:
            check_backend(os.environ.setdefault(BACKEND, "torch"))
        import keras  # type: ignore[import-untyped]
    except ImportError as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f'Keras 3 cannot be imported ({why}); run: pip install "elmokit[keras]"'
        ) from error
    finally:
        if not chosen_before:  # Keras has read it: the programs that we start choose for themselves
            os.environ.pop(BACKEND, None)
    check_backend(keras.backend.backend())
    return keras


def check_backend(name: str) -> None:
    """Refuse any backend but torch."""
    if name != "torch":
        raise InputError(
            f"Keras runs on {name!r}, ELMo's layer on torch alone; "
            f"set {BACKEND}=torch before importing keras"
        )


keras = import_keras()
