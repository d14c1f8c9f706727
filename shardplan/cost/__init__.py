"""Formulas: memory, compute, communication and step time as pure functions of the scaling book's letters."""
