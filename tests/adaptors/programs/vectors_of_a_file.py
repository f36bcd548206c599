"""Vectors of the lines of a file and cosines of neighbours, as simple_elmo's examples make them."""

import sys

import numpy as np
from simple_elmo import ElmoModel

folder, text, output = sys.argv[1:]
model = ElmoModel()
model.load(folder, max_batch_size=2)
with open(text) as lines:
    sentences = [line.strip().split() for line in lines]
vectors = model.get_elmo_vectors(sentences, layers="top")
for words, rows in zip(sentences, vectors):
    cropped = rows[: len(words), :]
    cosines = cropped @ cropped.T / np.outer(*[np.linalg.norm(cropped, axis=1)] * 2)
    assert np.allclose(np.diag(cosines), 1)
averages = model.get_elmo_vector_average(sentences)
assert averages.shape == (len(sentences), model.vector_size)
assert model.n_layers == 3
np.save(output, vectors)
