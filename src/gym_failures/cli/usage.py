"""How the help of a command names its arguments."""

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help names arguments as one types them, and leaves out which types they have in Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own class is private
        """Return what stands behind the command's name: an argument in brackets if it can be left out."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        names = [str(argument.metavar) for argument in arguments]
        return ["[OPTIONS]", *(name if of.required else f"[{name}]" for of, name in zip(arguments, names, strict=True))]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the sections of arguments and of options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            records = [
                # What typer makes of an argument's name differs with its version, and can hold the type.
                (str(param.metavar), record[1]) if kind == "argument" else record
                for param in params
                if (record := param.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
