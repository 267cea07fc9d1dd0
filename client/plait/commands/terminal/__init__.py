"""What all commands share: options, output, errors, signals."""
