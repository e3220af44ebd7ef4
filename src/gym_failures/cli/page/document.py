"""The page as one HTML document: style, program and data in one file, and nothing that it could load."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_PART: Final = files(__package__)

# The program is allowed by its hash, so that nothing else runs, whatever the data hold (W3C Content Security Policy 3).
_DOCUMENT: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{program}</script>
</body>
</html>
"""


def document(contents: Mapping[str, object], *, title: str, made: str, jaeger: str | None = None) -> str:
    """Return the page of `contents`; `made` says when it was made, `jaeger` is the URL that links to traces go to.

    What `contents` hold is shown as text and never run.
    """
    program = _text("page.js")
    data = json.dumps(
        {**contents, "title": title, "made": made, "jaeger": jaeger}, ensure_ascii=False, separators=(",", ":")
    )
    return _DOCUMENT.format(
        digest=base64.b64encode(hashlib.sha256(program.encode()).digest()).decode(),
        title=html.escape(title),
        style=_text("page.css"),
        body=_text("page.html"),
        # In a script element nothing is escaped, but without "<" nothing can end it (WHATWG HTML, section 4.12.1.3).
        data=data.replace("<", "\\u003c"),
        program=program,
    )


def _text(name: str) -> str:
    return _PART.joinpath(name).read_text("utf-8").strip()
