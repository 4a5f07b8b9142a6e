"""HTTP for those who watch over GM: probes."""
