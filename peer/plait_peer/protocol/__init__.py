"""The broker-less peer, without I/O (chapter 2 of the thesis)."""
