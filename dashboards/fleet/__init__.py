"""Rows of the board "Fleet". Its panels ask recorded series alone."""
