"""The live page in a real browser, against the real daemon."""
