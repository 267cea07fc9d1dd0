"""The command line: `plait COMMAND`. One file per command, named after it; `root.py` finds them.

Start-up is part of the interface: nothing here imports asyncio, the SDK or rich before a command needs it.
"""
