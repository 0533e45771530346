"""Reports: a profile as one HTML file that needs neither network nor server."""

from vknn.reports.html_file import comparison_page, page, save

__all__ = ["comparison_page", "page", "save"]
