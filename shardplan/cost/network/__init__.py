"""Collectives, and the networks they run on."""
