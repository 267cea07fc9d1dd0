"""The live page in a real browser: screenshots and costs."""
