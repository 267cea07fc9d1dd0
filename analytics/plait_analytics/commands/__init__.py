"""`plait analyze` and its subcommands."""
