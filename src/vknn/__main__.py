"""``python -m vknn``."""

import sys

from vknn.cli import main

sys.exit(main())
