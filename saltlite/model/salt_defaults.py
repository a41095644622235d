"""Salt's defaults for options that saltlite does not have, for files that were written for Salt and `config.get`."""

from __future__ import annotations

from typing import Any

MINION, MASTER = "minion", "master"


def salt_defaults(role: str) -> dict[str, Any]:
    """Salt's defaults for options that saltlite does not have; a fresh copy, since files change what they see."""
    everywhere = {
        "decrypt_pillar": [], "default_top": "base", "engines": [], "env_order": [], "ext_job_cache": "",
        "failhard": False, "features": {}, "file_ignore_glob": [], "file_ignore_regex": [], "file_recv": False,
        "fileserver_backend": ["roots"], "fips_mode": False, "hash_type": "sha256", "http_connect_timeout": 20.0,
        "http_max_body": 100 * 2**30, "http_request_timeout": 3600.0, "ipc_mode": "ipc", "ipv6": None,
        "lock_saltenv": False, "log_datefmt": "%H:%M:%S", "log_granular_levels": {}, "log_level_logfile": None,
        "open_mode": False, "permissive_pki_access": False, "pillar_cache": False,
        "pillar_includes_override_sls": False, "pillar_merge_lists": False, "pillar_source_merging_strategy": "smart",
        "pillarenv": None, "renderer": "jinja|yaml", "renderer_blacklist": [], "renderer_whitelist": [],
        "saltenv": None, "schedule": {}, "state_aggregate": False, "state_auto_order": True, "state_events": False,
        "state_output": "full", "state_output_diff": False, "state_output_profile": True, "state_top": "top.sls",
        "state_top_saltenv": None, "state_verbose": True, "test": False, "top_file_merging_strategy": "merge",
        "transport": "zeromq", "verify_env": True,
    }  # fmt: skip
    if role == MASTER:
        return {**everywhere, "file_buffer_size": 2**20, "file_client": "local", "local": True}
    return {
        **everywhere, "autoload_dynamic_modules": True, "backup_mode": "", "cmd_safe": True,
        "enable_fqdns_grains": False, "enable_gpu_grains": True, "file_buffer_size": 2**18, "file_client": "remote",
        "grains_cache": False, "local": False, "master_type": "str", "mine_enabled": True, "mine_interval": 60,
        "minion_id_caching": True, "multiprocessing": True, "password": None, "pillarenv_from_saltenv": False,
        "process_count_max": -1, "snapper_states": False, "startup_states": "", "state_queue": False,
        "use_master_when_local": False, "username": None,
    }  # fmt: skip
