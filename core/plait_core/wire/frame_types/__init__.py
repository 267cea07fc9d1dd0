"""Control frames: one msgpack map each, declared as dataclasses."""
