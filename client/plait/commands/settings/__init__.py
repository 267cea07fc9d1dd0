"""Commands about saved addresses, the shell and installed versions."""
