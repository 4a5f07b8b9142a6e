"""The Local Controller stand-in: agent, store, worker HTTP API and, as a runner, the whole node."""
