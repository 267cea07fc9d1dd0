"""Commands that publish and subscribe."""
