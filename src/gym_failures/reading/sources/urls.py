"""Which URLs can be asked."""

from urllib.parse import SplitResult


def names_a_host(parts: SplitResult) -> bool:
    """Tell whether a URL names a host, and no port that is none."""
    try:
        port = parts.port
    except ValueError:  # such a port there is not
        return False
    return bool(parts.hostname) and port != 0 and parts.netloc.isprintable() and " " not in parts.netloc
