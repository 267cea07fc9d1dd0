"""Runs a command again and again: `every.py SECONDS FILE -- COMMAND...`; FILE is touched each time that it succeeds."""

import subprocess
import sys
import time
from pathlib import Path

pause_s, alive, _, *command = sys.argv[1:]
while True:
    if subprocess.run(command, check=False).returncode == 0:
        Path(alive).touch()
    time.sleep(float(pause_s))
