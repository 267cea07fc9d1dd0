"""Commands that show a running overlay and explain its decisions."""
