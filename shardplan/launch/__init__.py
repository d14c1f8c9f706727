"""Launches as people have them: the gate, repairs and comparisons."""
