"""Settings: one file for GM, as Sedna's, plus ours (docs/configuration.md has the table)."""
