"""The hardware: chips, their torus, and how JAX lays a mesh over it."""
