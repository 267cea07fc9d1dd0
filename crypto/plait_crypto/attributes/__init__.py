"""Which credentials the values of an attribute have, and which a condition on it needs."""
