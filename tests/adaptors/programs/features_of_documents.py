"""Vectors of documents for a sequence tagger, padded to a length, in the manner of delft."""

import sys

import numpy as np
from simple_elmo import ElmoModel

folder, text, output = sys.argv[1:]


class Features:
    def __init__(self, path):
        self.model = ElmoModel()
        self.model.load(path, max_batch_size=20)
        self.size = self.model.vector_size

    def sentence_vectors(self, tokens):
        lengths = [len(words) for words in tokens]
        padded = np.zeros((len(tokens), max(lengths), self.size), dtype="float32")
        found = self.model.get_elmo_vectors(tokens, warmup=False)
        for row, (vectors, length) in enumerate(zip(found, lengths)):
            padded[row, :length] = vectors[:length]
        return padded


with open(text) as lines:
    documents = [line.split() for line in lines]
np.save(output, Features(folder).sentence_vectors(documents))
