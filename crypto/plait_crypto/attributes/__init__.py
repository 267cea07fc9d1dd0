"""The credentials that an attribute's values match, and those that a condition on it requires."""
