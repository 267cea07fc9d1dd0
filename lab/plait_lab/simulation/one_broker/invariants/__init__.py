"""What the record of a history must satisfy, and the bounds of a broker while it runs."""
