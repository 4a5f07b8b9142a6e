"""The embedded Kubernetes API server, for trying and testing. It is no cluster."""
