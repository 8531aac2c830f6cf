"""The metric table, by subject, and what is made of it: the exposition and the reference page."""
