"""A class of word embeddings around ElmoEmbedder, pickled with taggers, as flair's old one."""

import pickle
import sys

import numpy as np
import torch


class Embeddings:
    def __init__(self, options_file, weight_file, mode="all"):
        import allennlp.commands.elmo

        self.mode = mode
        self.ee = allennlp.commands.elmo.ElmoEmbedder(
            options_file=options_file, weight_file=weight_file, cuda_device=-1
        )
        self.length = len(self.embed([["hello"]])[0][0])

    def __setstate__(self, state):
        self.__dict__ = state
        device = torch.device("cpu")
        self.ee.cuda_device = -1
        self.ee.elmo_bilm.to(device=device)
        self.ee.elmo_bilm._elmo_lstm._states = tuple(
            [each.to(device) for each in self.ee.elmo_bilm._elmo_lstm._states]
        )

    def embed(self, sentences):
        vectors = []
        for layers, words in zip(self.ee.embed_batch(sentences), sentences):
            sides = [
                torch.cat([torch.FloatTensor(layers[level, place]) for level in range(3)], 0)
                for place, _ in enumerate(words)
            ]
            vectors.append(sides)
        return vectors


assert __name__ == "__main__"
embeddings = Embeddings(*sys.argv[1:3])
again = pickle.loads(pickle.dumps(embeddings.ee))
other = Embeddings.__new__(Embeddings)
other.__setstate__({**embeddings.__dict__, "ee": again})
sentences = [["The", "grass", "is", "green", "."]]
first, second = (each.embed(sentences)[0] for each in (embeddings, other))
assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(first, second))
np.save(sys.argv[3], torch.stack(first).numpy())
