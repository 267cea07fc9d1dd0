"""How brokers find each other, come to trust each other, and choose whom to link to. No I/O."""
