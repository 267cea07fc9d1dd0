"""`plait doctor`: what Plait needs of this machine."""
