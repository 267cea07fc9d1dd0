"""Health check of a container. Exit code 0 is healthy. It imports little, because it runs often.

Without arguments it checks that the broker of this container is ready (PLAIT_BROKER__HTTP, by default port 4681).
`ready.py tcp [HOST:]PORT` checks that the port accepts connections.
`ready.py fresh FILE [S]` checks that the file was written within the last S seconds, by default 30.
"""

import os
import socket
import sys
import time

TIMEOUT_S = 2.0


def broker() -> bool:
    port = int(os.environ.get("PLAIT_BROKER__HTTP", ":4681").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).split(b" ")[1:2] == [b"200"]


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    socket.create_connection((host or "127.0.0.1", int(port)), TIMEOUT_S).close()
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
