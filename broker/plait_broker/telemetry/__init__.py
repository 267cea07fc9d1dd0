"""Records of what happens, for analysis later: from a bounded ring to segments on disk, by one thread."""
