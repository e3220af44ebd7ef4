"""How `make docs` builds the site; it fails at a link or a name that leads nowhere."""

from sphinx.application import Sphinx

project = "gym-failures"
project_copyright = "The gym-failures authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["decisions/template.md"]
html_theme = "furo"
html_title = "gym-failures"
myst_heading_anchors = 3

# Docstrings put names into single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "no-value": True, "exclude-members": "model_config, model_post_init"}

# A page outside of docs/, which one here includes: links to it lead to that one on the site, and to it in the tree.
_ELSEWHERE = {"../../collector-config/README.md": "../reference/collector-config.md"}


def _link_within(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Turn the links of a page to pages outside of docs/ into links to those that include them."""
    for there, here in _ELSEWHERE.items():
        source[0] = source[0].replace(f"]({there}", f"]({here}")


def setup(app: Sphinx) -> None:
    """Have Sphinx call what is above."""
    app.connect("source-read", _link_within)
