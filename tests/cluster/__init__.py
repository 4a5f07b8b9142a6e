"""The API servers that tests run against, and helpers that play scheduler and kubelet."""
