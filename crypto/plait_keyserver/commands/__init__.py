"""The commands `plait keys`, `plait keyserver` and `plait exposure`, and where they read a passphrase."""
