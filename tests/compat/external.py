"""External pillars of Salt itself, unmodified, in the pillar of a minion; prints JSON."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from saltlite.model.ids import MinionId
from saltlite.pillar.external import ExternalPillars
from saltlite.wire.codec import decode_document, encode_document


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tree/hosts/web1").mkdir(parents=True)
        (folder / "tree/hosts/web1/motd").write_text("hello")
        (folder / "stack.cfg").write_text("core.yml\n")
        (folder / "core.yml").write_text("stacked: {{ minion_id }}\n")
        listed: list[dict[str, Any]] = [
            {"file_tree": {"root_dir": f"{folder}/tree"}},
            {"stack": f"{folder}/stack.cfg"},
            {"extra_minion_data_in_pillar": {"include": ["a"], "extra_minion_data": {"a": 1}}},
        ]
        opts = {
            "ext_pillar": listed, "ext_pillar_first": False, "cachedir": str(folder),
            "conf_file": f"{folder}/master", "id": "m", "__role": "master",
        }  # fmt: skip
        found, mistakes = ExternalPillars(opts).add_to({}, MinionId("web1"), {"os": "Debian", "id": "web1"})
        print(json.dumps([decode_document(encode_document(found)), mistakes], default=repr))


if __name__ == "__main__":
    main()
