// Mixes of layers, as the paper's equation 1 and its form with weights for each direction.
export function softmax(weights) {
  const most = Math.max(...weights);
  const powers = weights.map((weight) => Math.exp(weight - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

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

export const length = (vector) => Math.hypot(...vector);

export function cosine(first, second) {
  let dot = 0;
  for (let n = 0; n < first.length; n += 1) dot += first[n] * second[n];
  return dot / (length(first) * length(second) || 1);
}
