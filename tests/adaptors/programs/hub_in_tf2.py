"""A tutorial's features for a classifier, with TF 2: batches of texts to arrays."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

embed = hub.load("https://tfhub.dev/google/elmo/3")
layer = hub.KerasLayer(
    "https://tfhub.dev/google/elmo/2",
    input_shape=[],
    dtype=tf.string,
    trainable=True,
    signature="default",
    output_key="elmo",
)


def vectors(texts):
    embeddings = embed.signatures["default"](tf.convert_to_tensor(texts))["elmo"]
    return tf.reduce_mean(embeddings, 1).numpy()


texts = np.array(["the cat is on the mat", "dogs are in the fog now"])
features = np.concatenate([vectors(texts[start : start + 1]) for start in range(2)], axis=0)
assert features.shape == vectors(texts).shape
assert np.allclose(layer(tf.constant(texts)).numpy().mean(1), features, atol=1e-5)
words = embed.signatures["tokens"](
    tokens=tf.constant([text.split() for text in texts]), sequence_len=tf.constant([6, 6])
)
assert np.allclose(words["default"], features, atol=1e-5)
np.save(sys.argv[1], layer(tf.constant(texts)))
