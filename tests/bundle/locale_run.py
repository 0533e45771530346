"""Child process of test_runner_locale.py: what the C runner writes where an app has set its locale.

Arguments: locale, library, bundle. Out goes a JSON object of texts.
"""

from __future__ import annotations

import json
import locale
import sys

from vknn.bundle.runner import Runner
from vknn.errors import DeviceTimeoutError

name, library, bundle = sys.argv[1:]
locale.setlocale(locale.LC_ALL, name)
texts: dict[str, object] = {"point": locale.localeconv()["decimal_point"], "late": ""}
with Runner(bundle, library=library) as runner:
    texts |= {"json": runner.test_json(), "test": runner.test()[1], "profile": runner.profile(3)}
with Runner(bundle, library=library, time_limit=1.5e-6) as runner:
    runner.submit()
    try:
        runner.wait()
    except DeviceTimeoutError as error:
        texts["late"] = str(error)
print(json.dumps(texts))
