"""Reports: a profile as one HTML file that needs neither network nor server."""

from vknn.reports.page import page, save

__all__ = ["page", "save"]
