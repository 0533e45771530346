"""Reports: a profile as one HTML file that needs neither network nor server."""

from vknn.reports.html_file import check_page, comparison_page, page, save

__all__ = ["check_page", "comparison_page", "page", "save"]
