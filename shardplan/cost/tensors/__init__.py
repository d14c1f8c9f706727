"""The tensors of a training step: parameters, activations, their sharding and layout."""
