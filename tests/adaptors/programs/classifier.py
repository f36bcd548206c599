"""A classifier on a mix of layers, in the manner of the AllenNLP 0.9 how-to and its tests."""

import sys

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.modules.elmo import Elmo, _ElmoBiLm, batch_to_ids
from allennlp.modules.scalar_mix import ScalarMix
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from allennlp.nn.util import remove_sentence_boundaries

options_file, weight_file, output = sys.argv[1:]
sentences = [["First", "sentence", "."], ["Another", "."]]


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.elmo = Elmo(options_file, weight_file, 2, dropout=0)
        self.out = torch.nn.Linear(2 * self.elmo.get_output_dim(), 2)

    def forward(self, ids):
        embedded = self.elmo(ids)
        first, second = embedded["elmo_representations"]
        mask = embedded["mask"].float().unsqueeze(-1)
        return self.out((torch.cat([first, second], -1) * mask).sum(1) / mask.sum(1))


ids = batch_to_ids(sentences)
classifier = Classifier()
optimiser = torch.optim.Adam([each for each in classifier.parameters() if each.requires_grad])
losses = []
for _ in range(5):
    classifier.elmo._elmo_lstm._elmo_lstm.reset_states()
    loss = torch.nn.functional.cross_entropy(classifier(ids), torch.tensor([0, 1]))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
assert classifier.elmo._scalar_mixes[0].gamma.item() != 1

bilm = _ElmoBiLm(options_file, weight_file)
result = bilm(ids)
top, mask = remove_sentence_boundaries(result["activations"][2], result["mask"])
assert mask.data.numpy().sum(axis=1).tolist() == [3, 2]
indexer = ELMoTokenCharactersIndexer()
indexed = indexer.tokens_to_indices(sentences[0], None, "elmo")["elmo"]
assert ids[0].tolist() == indexed
try:
    ScalarMix(3)([top])
    raise SystemExit("a wrong number of tensors was accepted")
except ConfigurationError:
    pass
embedder = ElmoTokenEmbedder(options_file, weight_file, projection_dim=7)
assert embedder(ids).shape == (2, 3, 7)
np.save(output, top.detach().numpy())
