"""Reports: a profile as one HTML file that needs neither network nor server."""

from vknn.reports.html_file import page, save

__all__ = ["page", "save"]
