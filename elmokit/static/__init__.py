"""Static vectors: a word has one, whatever it means in its sentence. The baselines of ELMo."""
