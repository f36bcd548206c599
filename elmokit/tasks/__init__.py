"""Task networks on ELMo: one loop that trains, scores and saves them all."""
