"""The options of returners that were written for Salt."""

from __future__ import annotations

from saltlite.salt.returners import get_returner_options


def test_on_a_master_the_options_stand_in_returner_config() -> None:
    opts = {"port": 4515, "returner_config": {"influxdb": {"host": "db1", "port": 8086}}, "influxdb.user": "ann"}
    attrs = {name: name for name in ("host", "port", "user", "password")}
    found = get_returner_options("influxdb", None, attrs, __salt__={}, __opts__=opts, defaults={"password": "p"})
    assert found == {"host": "db1", "port": 8086, "user": "ann", "password": "p"}
