"""Errors that are the user's to mend: shown as one line, never as a traceback."""


class UserError(ValueError):
    """Bad input. The message is one line: what was got, what was wanted, what to do."""
