"""Formats that plans leave in; one module or package a format."""
