"""That this package was used wrongly; the classes are shown together in `exceptions`.

They are apart from it because the command and the start of a server raise no other, and records take time to import.
"""


class GymFailuresError(Exception):
    """Say that this package was used wrongly; the base of all such errors."""


class MissingExtraError(GymFailuresError, ModuleNotFoundError):
    """Say that something needs a package which is not installed, and which extra brings it."""

    def __init__(self, what: str, module: str, extra: str) -> None:
        """Name what was wanted, the module that is not there, and the extra."""
        super().__init__(
            f"{what} needs {module}, which is not installed: pip install 'gym-failures[{extra}]'", name=module
        )
        self.extra = extra
