"""Frozen records that cross modules: plain numbers with a unit in each name, no behaviour."""
