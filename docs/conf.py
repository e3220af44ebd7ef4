"""How `make docs` builds the site; it fails at a link or a name that leads nowhere."""

project = "gym-failures"
project_copyright = "The gym-failures authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["decisions/template.md"]
html_theme = "furo"
html_title = "gym-failures"
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # a page of decisions begins below its number

# Docstrings put names into single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "no-value": True, "exclude-members": "model_config, model_post_init"}
