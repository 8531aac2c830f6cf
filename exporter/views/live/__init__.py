"""A View on the wire of the live page, as docs/live-protocol.md describes it."""
