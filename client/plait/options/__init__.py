"""The arguments of the SDK: options with their limits, checked and converted."""
