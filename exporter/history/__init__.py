"""What is remembered between ticks, in fixed memory: windows, histograms, counters."""
