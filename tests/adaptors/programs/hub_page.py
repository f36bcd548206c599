"""The two calls of the TF-Hub page, and a mean of its own."""

import sys

import numpy as np
import tensorflow_hub as hub

elmo = hub.Module("https://tfhub.dev/google/elmo/3", trainable=True)
sentences = ["the cat is on the mat", "dogs are in the fog"]
by_text = elmo(sentences, signature="default", as_dict=True)["elmo"]
tokens = [sentence.split() for sentence in sentences]
lengths = [len(words) for words in tokens]
padded = [words + [""] * (max(lengths) - len(words)) for words in tokens]
by_tokens = elmo(
    inputs={"tokens": padded, "sequence_len": lengths}, signature="tokens", as_dict=True
)["elmo"]
assert np.array_equal(np.array(by_text), np.array(by_tokens))
np.save(sys.argv[1], by_text)
