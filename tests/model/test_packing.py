import torch

from elmokit.model.lstm import pack


def test_steps_hold_the_running_sentences_longest_first():
    packing = pack(torch.tensor([2, 4, 1]), words=4)
    assert packing.rows.tolist() == [1, 0, 2]
    assert packing.step_sizes == [3, 2, 1, 1]
    assert packing.forward.tolist() == [4, 0, 8, 5, 1, 6, 7]
    assert packing.backward.tolist() == [7, 1, 8, 6, 0, 5, 4]


def test_sentences_of_equal_length_keep_their_order():
    assert pack(torch.tensor([3, 3, 3]), words=3).rows.tolist() == [0, 1, 2]


def test_every_token_is_read_once_in_each_direction_and_no_padding():
    lengths = torch.tensor([5, 1, 3, 3, 2])
    packing = pack(lengths, words=6)
    tokens = {row * 6 + word for row, length in enumerate(lengths) for word in range(int(length))}
    assert set(packing.forward.tolist()) == set(packing.backward.tolist()) == tokens
    assert sum(packing.step_sizes) == len(tokens)
