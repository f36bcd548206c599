"""ONNX files: a biLM as one graph, from the ids of words to all layers, and what its reader needs.

The recurrence of each layer and direction is a Scan: ONNX's own LSTM has no projection, and does
not clip the cell. The direction that reads from the end has each sentence reversed, so that padding
comes last for both and needs no mask.
"""

from __future__ import annotations

import math
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import WORD_PADDING, CharacterEncoderConfig
from elmokit.errors import FormatError
from elmokit.formats.native import SavedModel
from elmokit.io.files import write_folder_atomically, write_object
from elmokit.model.bilm import BiLM, remove_markers
from elmokit.model.lstm import FORGET_BIAS
from elmokit.system import import_extra

OPSETS, IR_VERSION = (("", 18), ("com.microsoft", 1)), 8  # the oldest; the second for 8 bits alone
LARGEST = 2**31 - 2**20  # bytes of weights in a file of ONNX; those of larger models are in another
BLOCK = 32  # weights that share a scale in 8 bits
TOLERANCE = 1e-5  # how far the graph may differ, as a share of a layer's largest value
FLOATS, INTEGERS = 1, 7  # ONNX's numbers of float32 and int64


class Graph:
    """The nodes of a biLM, or of a step of it. Values go by the names of the nodes that give them.

    With `int8`, weights of products have 8 bits, and their inputs too as they are multiplied.
    """

    def __init__(self, bilm: BiLM, int8: bool) -> None:
        self.onnx = import_extra("onnx", "onnx")
        self.config, self.int8, self.name = bilm.config, int8, ""
        self.state = {name: value.detach().numpy() for name, value in bilm.state_dict().items()}
        self.nodes: list[Any] = []
        self.weights: dict[str, NDArray[Any]] = {}

    def add(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; give the name of its output, or of each. Inputs may be numbers or arrays."""
        names = [f"{self.name}{kind}_{len(self.nodes)}_{number}" for number in range(outputs)]
        named = [value if isinstance(value, str) else self.add_weight(value) for value in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, named, names, **attributes))
        return names[0] if outputs == 1 else names

    def add_weight(self, values: Any) -> str:
        """Add constant values, whole numbers or float32; give their name."""
        array, name = np.array(values, order="C"), f"weight_{len(self.weights)}"
        self.weights[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name

    def parts(self, name: str) -> list[NDArray[Any]]:
        """The weight and the bias of a layer of the encoder."""
        return [self.state[f"encoder.{name}.{part}"] for part in ("weight", "bias")]

    def product(self, values: str, weight: NDArray[Any], addend: Any = 0.0) -> str:
        """Values (…, inputs) times a weight (outputs, inputs), plus what is given."""
        if not self.int8:
            return self.add("Add", self.add("MatMul", values, weight.T), addend)
        outputs, inputs = weight.shape
        blocks = np.pad(weight, ((0, 0), (0, -inputs % BLOCK))).reshape(outputs, -1, BLOCK)
        scales = np.maximum(np.abs(blocks).max(-1) / 127, np.finfo(np.float32).tiny)
        units = ((blocks / scales[..., None]).round() + 128).astype(np.uint8)
        sizes = {"K": inputs, "N": outputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        product = self.add("MatMulNBits", values, units, scales, domain="com.microsoft", **sizes)
        return self.add("Add", product, addend)

    def finished(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
        """The graph of ONNX, with the shapes, if known, of inputs (`ids`: integers) and outputs."""
        make = self.onnx.helper.make_tensor_value_info
        given = [make(name, INTEGERS if name == "ids" else FLOATS, inputs[name]) for name in inputs]
        made = [make(name, FLOATS, shape) for name, shape in outputs.items()]
        weights = {} if self.name else self.weights  # a step uses those of the graph around it
        tensors = [self.onnx.numpy_helper.from_array(*pair[::-1]) for pair in weights.items()]
        return self.onnx.helper.make_graph(self.nodes, self.name or "elmo", given, made, tensors)


def add_bilm(graph: Graph, begin: NDArray[Any], end: NDArray[Any]) -> None:
    """All of a model; `begin` and `end` are the token vectors of the sentence markers.

    `ids` (batch, words, characters), zeros where a sentence has ended, become `layers`
    (layers, batch, words, size), zeros there too: markers are added and removed inside.
    """
    mask = graph.add("Greater", graph.add("ReduceMax", "ids", [2], keepdims=0), 0)
    lengths = graph.add("ReduceSum", graph.add("Cast", mask, to=INTEGERS), [1], keepdims=0)
    batch = graph.add("Shape", "ids", start=0, end=1)
    first = graph.add("Expand", begin, graph.add("Concat", batch, [1, len(begin)], axis=0))
    marked = graph.add("Concat", first, add_words(graph), first, axis=1)  # the last makes room
    count = graph.add("Squeeze", graph.add("Shape", marked, start=1, end=2))
    after = graph.add("Unsqueeze", graph.add("Add", lengths, 1), [1])
    ends = graph.add("Equal", graph.add("Range", 0, count, 1), after)
    marked = graph.add("Where", graph.add("Unsqueeze", ends, [2]), end, marked)
    layers = add_layers(graph, marked, graph.add("Add", lengths, 2))
    graph.add("Mul", layers, graph.add("Unsqueeze", graph.add("Cast", mask, to=FLOATS), [0, 3]))
    graph.nodes[-1].output[0] = "layers"


def add_words(graph: Graph) -> str:
    """Token vectors (batch, words, token_size) of `ids`; each distinct word is encoded once."""
    config = graph.config.encoder
    assert isinstance(config, CharacterEncoderConfig)  # `convert_model` has seen to it
    flat = graph.add("Reshape", "ids", [-1, config.max_characters])
    ids, _, occurrences, _ = graph.add("Unique", flat, outputs=4, axis=0)
    # As in `CharacterEncoder.trim`, one window of padding after the longest word decides.
    used = graph.add("Sign", graph.add("Mod", ids, WORD_PADDING))
    places = graph.add("Mul", used, np.arange(1, config.max_characters + 1))
    end = graph.add("Add", graph.add("ReduceMax", places, keepdims=0), [config.max_width])
    ids = graph.add("Slice", ids, [0], end, [1])
    characters = graph.add("Gather", graph.state["encoder.characters.weight"], ids)
    characters = graph.add("Transpose", characters, perm=[0, 2, 1])
    strongest = []
    for number in range(len(config.filters)):
        responses = graph.add("Conv", characters, *graph.parts(f"convolutions.{number}"))
        strongest.append(graph.add("ReduceMax", responses, [2], keepdims=0))
    activation = "Relu" if config.activation == "relu" else "Tanh"
    features = graph.add(activation, graph.add("Concat", *strongest, axis=1))
    for number in range(config.highways):
        gate = graph.product(features, *graph.parts(f"highways.{number}.gate"))
        new = graph.product(features, *graph.parts(f"highways.{number}.transform"))
        gate, new = graph.add("Sigmoid", gate), graph.add("Relu", new)
        change = graph.add("Mul", gate, graph.add("Sub", new, features))
        features = graph.add("Add", features, change)
    if "encoder.projection.weight" in graph.state:
        features = graph.product(features, *graph.parts("projection"))
    occurrences = graph.add("Reshape", occurrences, graph.add("Shape", "ids", start=0, end=2))
    return graph.add("Gather", features, occurrences)


def add_layers(graph: Graph, marked: str, lengths: str) -> str:
    """All layers (layers, batch, words, size) of marked token vectors; markers are cut off."""
    axes = {"batch_axis": 1, "time_axis": 0}
    tokens = graph.add("Transpose", marked, perm=[1, 0, 2])
    read = {"forward": tokens, "backward": graph.add("ReverseSequence", tokens, lengths, **axes)}
    layers = [graph.add("Concat", tokens, tokens, axis=2)]
    for depth in range(graph.config.lstm_layers):
        for direction, inputs in read.items():
            read[direction] = add_lstm(graph, inputs, f"{direction}_lstm.layers.{depth}.")
            if graph.config.skip_connections and depth > 0:
                read[direction] = graph.add("Add", read[direction], inputs)
        backward = graph.add("ReverseSequence", read["backward"], lengths, **axes)
        layers.append(graph.add("Concat", read["forward"], backward, axis=2))
    layers = [graph.add("Unsqueeze", layer, [0]) for layer in layers]
    words = graph.add("Slice", graph.add("Concat", *layers, axis=0), [1], [-1], [1])
    return graph.add("Transpose", words, perm=[0, 2, 1, 3])


def add_lstm(graph: Graph, inputs: str, name: str) -> str:
    """What one layer of one direction makes of inputs (words, batch, size): as many outputs."""
    config, cells, size = graph.config, graph.config.cell_size, graph.config.token_size
    cell_clip = float(config.cell_clip or math.inf)  # a file may have a whole number
    output_clip = float(config.projection_clip or math.inf)
    weights = {key.removeprefix(name): graph.state[key] for key in graph.state if name in key}
    bias = weights["bias"] + np.repeat([0, np.float32(FORGET_BIAS), 0, 0], cells)
    gates = graph.product(inputs, weights["input_weight"], bias)
    step = copy(graph)
    step.nodes, step.name = [], name
    old_output, old_cell, given = name + "output", name + "cell", name + "gates"
    opened = step.product(old_output, weights["recurrent_weight"], given)
    three, candidate = step.add("Split", opened, [3 * cells, cells], outputs=2, axis=1)
    three = step.add("Sigmoid", three)
    entry, forget, leave = step.add("Split", three, [cells] * 3, outputs=3, axis=1)
    entered = step.add("Mul", entry, step.add("Tanh", candidate))
    cell = step.add("Add", step.add("Mul", forget, old_cell), entered)
    cell = step.add("Clip", cell, -cell_clip, cell_clip)
    output = step.add("Mul", leave, step.add("Tanh", cell))
    if config.has_projection:
        output = step.product(output, weights["projection_weight"])
        output = step.add("Clip", output, -output_clip, output_clip)
    after = output, cell, step.add("Identity", output)
    body = step.finished(dict.fromkeys((old_output, old_cell, given)), dict.fromkeys(after))
    batch = graph.add("Shape", "ids", start=0, end=1)
    rows = [graph.add("Concat", batch, [number], axis=0) for number in (size, cells)]
    zeros = [graph.add("Expand", 0.0, shape) for shape in rows]
    return graph.add("Scan", *zeros, gates, outputs=3, body=body, num_scan_inputs=1)[2]


@torch.inference_mode()
def write_onnx(saved: SavedModel, folder: Path, *, int8: bool, force: bool) -> list[Path]:
    """Write a model's graph and what its reader needs into a folder, once ONNX Runtime agrees."""
    runtime, config = import_extra("onnxruntime", "onnx"), saved.config
    bilm = BiLM.from_weights(config, saved.weights).eval()
    graph = Graph(bilm, int8)
    markers = torch.stack([bilm.encoder.begin_marker, bilm.encoder.end_marker])
    add_bilm(graph, *bilm.encoder(markers).numpy())
    helper, large = graph.onnx.helper, sum(w.nbytes for w in graph.weights.values()) > LARGEST
    layers = [config.layer_count, "batch", "words", config.vector_size]
    ids = ["batch", "words", markers.shape[1]]
    finished = graph.finished({"ids": ids}, {"layers": layers})
    opsets = [helper.make_opsetid(*opset) for opset in OPSETS[: 1 + int8]]
    model = helper.make_model(finished, opset_imports=opsets, ir_version=IR_VERSION)
    with write_folder_atomically(folder, force=force) as temporary:
        path = str(temporary / "model.onnx")
        graph.onnx.save_model(model, path, save_as_external_data=large, location="model.onnx.data")
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        contents = {
            "format": "elmokit-onnx",
            "version": 1,
            "layers": config.layer_count,
            "vector_size": config.vector_size,
            "max_characters": markers.shape[1],
            "tokenizer": saved.tokenizer,
            "compared": compare(bilm, session, math.inf if int8 else TOLERANCE),
        }
        write_object(contents, temporary / "elmokit.json")
    return sorted(folder.iterdir())


def compare(bilm: BiLM, session: Any, tolerance: float) -> dict[str, float]:
    """How far a graph is from the library on random words; raises where it is too far."""
    present = torch.arange(12) < torch.tensor([12, 9, 5, 1])[:, None]
    shape, random = (4, 12, len(bilm.encoder.begin_marker)), torch.Generator().manual_seed(0)
    ids = torch.randint(1, WORD_PADDING, shape, generator=random) * present[..., None]
    expected, mask = remove_markers(*bilm(ids).layers)
    found = torch.from_numpy(session.run(None, {"ids": ids.numpy()})[0])
    differences = (found - expected).abs().amax((1, 2, 3)) / expected.abs().amax((1, 2, 3))
    difference = float(differences.max())
    if not difference <= tolerance:
        raise FormatError(f"ONNX Runtime differs by {difference:.1e} of a layer's largest value")
    cosines = torch.cosine_similarity(found[:, mask], expected[:, mask], dim=-1)
    return {"largest_difference": difference, "least_cosine": float(cosines.min())}
