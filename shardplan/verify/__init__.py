"""Real XLA compiles through MaxText: the only place that knows of jax, in a process of its own."""
