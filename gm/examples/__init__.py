"""Example workers, shipped in the wheel."""
