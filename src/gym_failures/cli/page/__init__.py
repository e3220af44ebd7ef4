"""One HTML file that shows what failed in a run: it needs no network, and what it shows is data, never code.

`contents` makes the data, `document` puts data, style and program together; page.css and page.js are what runs in the
browser.
"""

from gym_failures.cli.page.contents import contents
from gym_failures.cli.page.document import document

__all__ = ["contents", "document"]
