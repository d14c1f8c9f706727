"""Formats that people bring; one module or package a format, none of which knows another. `shardplan.loaders.load` composes them."""
