"""Read and translate: one module a source; none of them decides, logs steadily or renders."""
