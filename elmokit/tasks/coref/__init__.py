"""Who and what the mentions of a document refer to: end-to-end span ranking (Lee et al. 2017)."""
