"""Federated learning of handwritten digits."""
