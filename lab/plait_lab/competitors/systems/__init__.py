"""The systems that are measured side by side."""
