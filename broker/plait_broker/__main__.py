"""`python -m plait_broker`: the same as `plait broker`."""

from .command import broker

if __name__ == "__main__":
    broker(prog_name="plait broker")
