"""An app whose requests never end by themselves, behind middlewares that each serve them in a task of its own."""

import asyncio
import os

from fastapi import FastAPI

app = FastAPI()


@app.get("/hang")
async def hang(gate: int):
    """Say who is here, and wait for ever."""
    _, writer = await asyncio.open_connection("127.0.0.1", gate)
    writer.write(f"{os.getpid()}\n".encode())
    await asyncio.Event().wait()


@app.middleware("http")
async def outer(request, call_next):
    """Hand on."""
    return await call_next(request)


@app.middleware("http")
async def inner(request, call_next):
    """Hand on."""
    return await call_next(request)
