"""The commands, one module each. Empty, so that a command imports only what it needs."""
