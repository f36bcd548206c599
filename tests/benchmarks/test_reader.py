import torch
from closeness import assert_close

from benchmarks.reader import SIZES, JoinedReader, random_words
from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.reading.network import ReadingNetwork


def test_both_layers_give_the_same_scores():
    sizes = SIZES["ELMo at both places"]
    networks = []
    for kind in (JoinedReader, ReadingNetwork):
        torch.manual_seed(1)
        networks.append(kind(sizes, NetworkConfig(hidden=6, answer_lstms=False)).eval())
    texts, asked = random_words(2, 9, sizes), random_words(3, 4, sizes)
    rows = torch.tensor([0, 1, 0]), torch.arange(3)
    one, other = (network(texts, asked, *rows) for network in networks)
    assert_close(one.start, other.start)
    assert_close(one.end, other.end)
