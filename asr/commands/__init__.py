"""What each command does, once its arguments are read. Empty, so that each is imported alone."""
