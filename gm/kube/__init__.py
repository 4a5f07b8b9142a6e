"""How this program talks to a Kubernetes API server."""
