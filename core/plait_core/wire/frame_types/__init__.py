"""Control frames: one msgpack map or list each, declared as dataclasses."""
