"""gm: a Global Manager for edge AI on Kubernetes."""

__all__ = ["__version__"]

__version__ = "0.1.0"
