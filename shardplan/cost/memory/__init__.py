"""Memory of one JAX device."""
