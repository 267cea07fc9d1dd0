"""The health check of a container, without importing more than it takes: exit code 0 is healthy.

ready.py                   the broker of this container says that it is ready (PLAIT_BROKER__HTTP, by default port 4681)
ready.py tcp [HOST:]PORT   somebody listens there
ready.py fresh FILE [S]    a file was written within the last half minute, or so many seconds
"""

import os
import socket
import sys
import time

PATIENCE_S = 2.0


def broker() -> bool:
    port = int(os.environ.get("PLAIT_BROKER__HTTP", ":4681").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).split(b" ")[1:2] == [b"200"]


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    socket.create_connection((host or "127.0.0.1", int(port)), PATIENCE_S).close()
    return True


def fresh(path: str, within_s: str = "30") -> bool:
    return time.time() - os.stat(path).st_mtime < float(within_s)


def main(kind: str = "broker", *arguments: str) -> bool:
    return {"broker": broker, "tcp": listens, "fresh": fresh}[kind](*arguments)


if __name__ == "__main__":
    try:
        sys.exit(not main(*sys.argv[1:]))
    except OSError as error:
        sys.exit(str(error))
