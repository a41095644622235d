"""Salt's own beacon files under the loader of saltlite, as the process of the beacons runs them.

SALTLITE_COMPAT_PYTHON -m tests.compat.beacons     prints what they answered as JSON
"""

from __future__ import annotations

import json
import logging
import tempfile
from typing import Any

from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.minion.timers.beacons import KIND, checked


def main() -> None:
    """Load the beacons, call one, and print."""
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        opts = {"id": "web1", "cachedir": folder, "salt_compat": "auto"}
        minion = Loader(build_index(search_layers(opts)), opts, {"id": "web1"}, {})
        beacons = minion.of_type(KIND, build_index(search_layers(opts, KIND)))

        def ask(name: str, config: Any) -> Any:
            return checked(beacons, {"t": "check", "name": name, "module": name, "config": config})

        found = {
            "beacons": sorted({name.partition(".")[0] for name in beacons if name.endswith(".beacon")}),
            "service_is_ours": "saltlite" in beacons["service.beacon"].__code__.co_filename,
            "memusage": ask("memusage", [{"percent": "0%"}, {"_beacon_name": "memusage"}]),
            "invalid": ask("memusage", "no list of maps"),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
