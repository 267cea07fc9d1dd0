"""The live page in a real browser: its pictures and its costs."""
