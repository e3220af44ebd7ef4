"""Header values made by hand, for tests of what no encoder of ours would write."""

import base64
import json
import zlib


def packed(content: object, *, version: str = "1", level: int = 6, after: bytes = b"") -> str:
    """Return the header value that carries `content`: bytes and text as they are, anything else as JSON.

    `level` is that of the compression, 0 for none; `after` follows the compressed stream.
    """
    text = content if isinstance(content, bytes | str) else json.dumps(content)
    body = text if isinstance(text, bytes) else text.encode()
    return f"{version}.{base64.urlsafe_b64encode(zlib.compress(body, level) + after).rstrip(b'=').decode()}"


def unpacked(value: str) -> str:
    """Return the JSON text that a header value carries."""
    _, payload = value.split(".")
    return zlib.decompress(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).decode()
