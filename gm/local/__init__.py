"""A whole system on this machine: the supervisor behind ``gm up`` and ``gm demo``."""
