"""Vectors of proteins, in the manner of SeqVec: the sum of the layers, residue by residue."""

import sys
from pathlib import Path

import numpy as np
from allennlp.commands.elmo import ElmoEmbedder

model, fasta, output = map(Path, sys.argv[1:])
proteins = {}
for line in fasta.read_text().splitlines():
    if line.startswith(">"):
        name = line[1:].split()[0]
        proteins[name] = ""
    else:
        proteins[name] += line.strip().upper()

elmo = ElmoEmbedder(
    weight_file=str(model / "weights.hdf5"),
    options_file=str(model / "options.json"),
    cuda_device=-1,
)
ordered = sorted(proteins.items(), key=lambda each: len(each[1]))
residues = elmo.embed_sentences([list(sequence) for _, sequence in ordered])
per_residue = {name: layers.sum(axis=0) for (name, _), layers in zip(ordered, residues)}
one = elmo.embed_sentence(list("SEQVENCE"))
np.savez(output, SEQVENCE=one, **{n: each.mean(axis=0) for n, each in per_residue.items()})
