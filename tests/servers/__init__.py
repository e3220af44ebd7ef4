"""Tests of real servers: uvicorn with httptools on loopback, FastAPI, Starlette, and bare ASGI."""
