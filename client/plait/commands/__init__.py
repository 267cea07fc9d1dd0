"""The command line `plait COMMAND`: one module for each command, named after it. `root.py` finds them.

Users notice start-up time, so asyncio, the SDK and rich are imported only by commands that need them.
"""
