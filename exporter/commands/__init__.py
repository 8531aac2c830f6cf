"""One module a subcommand: turns parsed arguments into a running app or a printed answer."""
