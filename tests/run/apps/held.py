"""An app whose requests are held, each with its whole process, until the test lets them go; then they fail."""

import os
import socket

from fastapi import FastAPI

app = FastAPI()


@app.post("/fail")
async def fail(gate: int):
    """Say who is here, wait, and fail."""
    with socket.create_connection(("127.0.0.1", gate)) as connection:
        connection.sendall(f"{os.getpid()}\n".encode())
        connection.recv(1)
    raise ConnectionRefusedError("down")
