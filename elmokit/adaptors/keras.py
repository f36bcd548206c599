"""ELMo in Keras 3, on its torch backend: `from elmokit.adaptors.keras import ElmoLayer, texts`.

```
model = keras.Sequential([
    text_input(),
    ElmoLayer(trainable=True),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(texts(["Win a prize!", "See you at six."]), np.array([1, 0]))
```
"""

from __future__ import annotations

from elmokit.adaptors.keras_layer import ElmoLayer, text_input
from elmokit.adaptors.keras_text_model import ElmoTextModel, load
from elmokit.adaptors.keras_texts import texts

__all__ = ["ElmoLayer", "ElmoTextModel", "load", "text_input", "texts"]
