"""Who did what to whom: deep highway LSTMs that tag the arguments of predicates."""
