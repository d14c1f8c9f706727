"""What is observed of a candidate, and which rules fire on it."""
