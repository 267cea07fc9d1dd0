"""How commands find a broker and connect to it."""
