"""The original code's way from a file to HDF5, and its ids."""

import sys

import h5py
import numpy as np
from bilm import Batcher, dump_bilm_embeddings

options, weights, text, output = sys.argv[1:]
dump_bilm_embeddings("vocabulary.txt", text, options, weights, output + ".hdf5")
with h5py.File(output + ".hdf5", "r") as file:
    second = file["1"][...]
with open(text) as lines:
    ids = Batcher("vocabulary.txt", 50).batch_sentences([line.split() for line in lines])
assert ids.shape[1:] == (6, 50)
np.save(output, second)
