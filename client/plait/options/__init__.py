"""What users pass to the SDK: options with their limits, checked and converted."""
