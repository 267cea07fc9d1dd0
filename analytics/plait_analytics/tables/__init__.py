"""The tables, each defined by one SQL text, and the files that store them."""
