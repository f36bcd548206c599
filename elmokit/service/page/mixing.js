// Mixes of layers, as the paper's equation 1 and its form with weights for each direction.
export function softmax(weights) {
  const most = Math.max(...weights);
  const powers = weights.map((weight) => Math.exp(weight - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

const repeated = (length, value) => Array(length).fill(value);

// Weights of both forms that count every layer the same.
export const evenWeights = (layers) => ({
  shared: repeated(layers, 0),
  apart: repeated(2 * layers - 1, Math.round(100 / layers) / 100),
});

// Weights of both forms that count one layer alone, or nearly so.
export function onlyLayer(layers, chosen) {
  const counts = (layer) => Number(layer === chosen);
  const others = Array.from({ length: layers - 1 }, (_, n) => counts(n + 1));
  return {
    shared: repeated(layers, -5).with(chosen, 5),
    apart: [counts(0), ...others, ...others],
  };
}

// The average of the layers: what a mix is compared with.
export const average = (layers) => ({ directions: false, gamma: 1, ...evenWeights(layers) });

// A mix as an address tells it; even where that does not.
export function restoreMix(values, layers) {
  const even = evenWeights(layers);
  const numbers = (name, plain) => {
    const found = values.getAll(name).map(Number).filter(Number.isFinite);
    return found.length === plain.length ? found : plain;
  };
  return {
    directions: values.get("mix") === "apart",
    shared: numbers("w", even.shared),
    apart: numbers("d", even.apart),
    gamma: Number(values.get("gamma")) || 1,
  };
}

export const mixAddress = ({ directions, shared, apart, gamma }) => [
  ["mix", directions ? "apart" : "shared"],
  ["gamma", gamma],
  ...(directions ? apart.map((weight) => ["d", weight]) : shared.map((weight) => ["w", weight])),
];

// What each layer counts in each half of a vector: [forward half, backward half] of every layer.
export function halves(mix, layers) {
  if (!mix.directions) return softmax(mix.shared).map((share) => [share, share]);
  const [token, ...rest] = mix.apart;
  const forward = rest.slice(0, layers - 1);
  const backward = rest.slice(layers - 1);
  return [[token, token], ...forward.map((weight, n) => [weight, backward[n]])];
}

// Vectors (words, size) out of { data, shape: (layers, words, size) }.
export function mixed({ data, shape }, mix) {
  const [layers, words, size] = shape;
  const weights = halves(mix, layers);
  const vectors = Array.from({ length: words }, () => new Float64Array(size));
  weights.forEach(([forward, backward], layer) => {
    vectors.forEach((vector, word) => {
      const start = (layer * words + word) * size;
      for (let n = 0; n < size; n += 1)
        vector[n] += mix.gamma * (n < size / 2 ? forward : backward) * data[start + n];
    });
  });
  return vectors;
}

// The layers of one word, as a sentence of its own.
export function wordAlone({ data, shape }, position) {
  const [layers, words, size] = shape;
  const alone = new Float32Array(layers * size);
  for (let layer = 0; layer < layers; layer += 1) {
    const start = (layer * words + position) * size;
    alone.set(data.subarray(start, start + size), layer * size);
  }
  return { data: alone, shape: [layers, 1, size] };
}

export const length = (vector) => Math.hypot(...vector);

export function cosine(first, second) {
  let dot = 0;
  for (let n = 0; n < first.length; n += 1) dot += first[n] * second[n];
  return dot / (length(first) * length(second) || 1);
}
