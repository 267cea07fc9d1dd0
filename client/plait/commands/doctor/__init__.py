"""`plait doctor`: checks of this machine, its container and the overlay."""
