"""The rule catalogue: dimensions, predicates, thresholds and the rules themselves."""
