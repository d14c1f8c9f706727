"""Formats that people bring; one module or package a format, none of which knows another. `shardplan.load` composes them."""
