"""Probes, metrics and the dashboard page."""
