"""Extras that are not installed: one line says what to install, whoever asks for them."""

import sys

import numpy as np
import pytest
from helpers import error_of, write
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.probes import train_classifier
from elmokit.bulk.inputs import open_input
from elmokit.bulk.ray import embed_with_ray
from elmokit.errors import InputError
from elmokit.io.text_files import TextSettings, read_chunks
from elmokit.jobs.metrics import MetricsLog, draw_curves
from elmokit.static.evaluation import similarity_score
from elmokit.tasks import reports
from elmokit.tasks.coref.documents import Span
from elmokit.tasks.coref.scores import ceaf
from elmokit.tasks.examples import Labels
from elmokit.tasks.scores import score_labels
from elmokit.vectors.files import check_suffix, open_vectors, write_vectors

ARRAY = np.zeros((1, 2), np.float32)
EXAMPLES = ARRAY, np.zeros(1, int)
CLUSTERS = [(Span(0, 1), Span(1, 2))]
LINES = [{"step": 1, "kind": "train", "loss_forward": 1.0}]
PAIRS = "king queen 1\nking man 2\n"
SCORE = score_labels(Labels(("a", "b")), ("a",), ("b",))
MATPLOTLIB = "matplotlib.figure"


def text_of(path, contents):
    return open_input([str(write(path, contents))], TextSettings())


@pytest.mark.parametrize(
    ("extra", "module", "needs_it"),
    [
        ("parquet", "pyarrow", lambda _: check_suffix("a.parquet")),
        ("parquet", "pyarrow", lambda to: write_vectors(to / "a.parquet", [(["a"], ARRAY)])),
        ("parquet", "pyarrow", lambda to: open_vectors(to / "a.parquet")),
        ("parquet", "pyarrow", lambda to: text_of(to / "a.parquet", b"PAR1")),
        ("zstd", "zstandard", lambda to: [*read_chunks(write(to / "a.zst"))]),
        ("tensorboard", "torch.utils.tensorboard", lambda to: MetricsLog(to, tensorboard=True)),
        ("tasks", "scipy.optimize", lambda _: ceaf(CLUSTERS, CLUSTERS)),
        ("tasks", MATPLOTLIB, lambda to: reports.draw_curves([], to / "a.png", "title")),
        ("tasks", MATPLOTLIB, lambda to: reports.draw_mix([], to / "a.png", "title")),
        ("tasks", MATPLOTLIB, lambda to: reports.draw_confusion(SCORE, to / "a.png", "title")),
        ("plots", MATPLOTLIB, lambda to: draw_curves(LINES, to / "a.png")),
        (
            "static",
            "scipy.stats",
            lambda to: similarity_score(small_vectors(), write(to / "a", PAIRS)),
        ),
        ("analysis", "sklearn.linear_model", lambda _: train_classifier(*[EXAMPLES] * 3, print)),
        (
            "ray",
            "ray.data",
            lambda to: embed_with_ray(small_embedder(), text_of(to / "t", "a"), to),
        ),
    ],
)
def test_what_is_not_installed_is_one_line_with_the_command(
    extra, module, needs_it, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    said = error_of(needs_it, tmp_path, kind=InputError)
    assert f'is not installed; run: pip install "elmokit[{extra}]"' in said
