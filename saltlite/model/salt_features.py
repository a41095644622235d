"""What Salt has and saltlite does not: the names that mean it, and what to use instead.

Functions, runners and options of Salt are looked up here where they would otherwise be unknown, so that the message
says why. `docs/from-salt.md` has a table of the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass

SEE = "see `saltlite help from-salt`"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class SaltFeature:
    """A feature of Salt that does not exist here. `modules` and `runners` are globs on functions, `options` on options
    of either side."""

    name: str
    instead: str
    """What is different, and what to use; a sentence without its stop."""
    modules: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_DO_NOT_SHIP = _names(
    """
    acl aliases alternatives ansible ansiblegate apache apf artifactory asymmetric at baredoc bcache bgp bridge
    cassandra_cql celery chef chronos chroot cryptdev data debconf debconfmod defaults devinfo devmap dig etcd ethtool
    extfs firewalld gpg highstate_doc idem incron ini ini_manage ip ipset iwtools jinja junos kernelpkg linux_acl
    linux_lvm locate log logmod logrotate lvm mdadm_raid minion mysql napalm net netaddress nfs3 nixpkg npm ntp nxos
    openscap oracle osquery out pam partition pkgbuild postgres probes psget puppet pyenv quota rabbitmq raid rbac
    restartcheck ret route rsync salt_proxy salt_version saltcheck scp scsi seed slack slack_notify slsutil smbios
    snapper snmp sqlite3 ssh_pki supervisord sysfs syslog_ng test_virtual textfsm tls udev users vagrant virtualenv
    virtualenv_mod vsphere webutil xattr xfs xml yaml zk_concurrency
    """
)
"""Salt's execution modules for Linux that saltlite does not have, by both of their names."""

NOT_SHIPPED = SaltFeature(
    "modules that do not ship",
    "this module of Salt does not ship with saltlite: it loads where Salt is installed beside the minion "
    "(`saltlite help salt-modules`)",
)

FEATURES = (
    SaltFeature(
        "orchestrate",
        "saltlite has no orchestration: a script that calls `saltlite`, or a runner of yours, does things in order",
        runners=("state.*",),
    ),
    SaltFeature(
        "states",
        "saltlite has no states without Salt installed beside: where it is, Salt's own compiler applies them "
        "(`saltlite help states`)",
        modules=("state.*", "sys.list_state_*", "sys.state_*", "sys.list_renderers", "sys.renderer_doc"),
        options=(
            "state_compress_ids", "state_events", "state_output_exclude", "state_output_pct", "state_output_terse",
            "state_tabular", "states_dirs", "startup_states", "sls_list", "top_file", "snapper_states*", "master_tops*",
            "runner_returns",
        ),
    ),
    SaltFeature(
        "clients of the master on minions",
        "a minion has no rights on its master but those of peer and peer_run (`publish.publish`, `publish.runner`): "
        "run `saltlite-run` and `saltlite-key` on the master's machine, or let hooks of the master run runners on "
        "events (`saltlite help events`)",
        modules=(
            "saltutil.runner", "saltutil.wheel", "saltutil.mmodule", "saltutil.revoke_auth", "saltutil.regen_keys",
        ),
    ),
    SaltFeature(
        "reactor",
        "saltlite has no reactor: hooks in the master's configuration start jobs and runners on events "
        "(`saltlite help events`)",
        modules=("reactor.*",),
        runners=("reactor.*",),
        options=("reactor", "reactor_*", "engines", "thorium*", "engines_dirs"),
    ),
    SaltFeature(
        "gitfs",
        "files come from the folders in file_roots only: keep a clone of the repository there",
        modules=("gitfs.*", "hgfs.*", "svnfs.*", "minionfs.*", "s3fs.*"),
        options=(
            "gitfs_*", "hgfs_*", "svnfs_*", "s3fs_*", "azurefs_*", "minionfs_*", "fileserver_backend",
            "roots_update_interval",
        ),
    ),
    SaltFeature(
        "syndic",
        "saltlite has no syndics: give each minion the list of its masters",
        modules=("syndic.*",),
        options=("syndic_*", "order_masters"),
    ),
    SaltFeature(
        "git_pillar",
        "pillar is made of the files in pillar_roots and of external pillars: keep a clone of the repository there",
        runners=("git_pillar.*",),
        options=(
            "git_pillar_*", "pass_dir", "pass_gnupghome", "pass_strict_fetch",
            "pass_to_ext_pillars", "pass_variable_prefix", "pillar_gitfs_*", "gpg_*", "decrypt_pillar*",
        ),
    ),
    SaltFeature(
        "master_job_cache",
        "the master's store keeps the jobs (keep_jobs), and event_return and master_returners send them elsewhere",
        modules=("saltutil.find_cached_job", "saltutil.clear_job_cache"),
        options=("master_job_cache", "ext_job_cache", "job_cache*", "return", "archive_jobs"),
    ),
    SaltFeature(
        "returners on minions",
        "returners run on the master, from its event log (`saltlite help events`)",
        modules=("sys.list_returners", "sys.list_returner_functions", "sys.returner_doc", "sys.returner_argspec"),
    ),
    SaltFeature(
        "salt-ssh",
        "saltlite has no salt-ssh: hosts without a minion are resources of the type ssh (`saltlite help resources`)",
        modules=("saltutil.ssh*", "cp.hash_file_ssh", "x509.*_ssh"),
        runners=("ssh.*",),
        options=(
            "ssh_*", "roster*", "enable_ssh_minions", "thin_*", "min_extra_mods", "regen_thin", "multifunc_ordered",
        ),
    ),
    SaltFeature(
        "proxy minions",
        "saltlite has no proxy minions: devices are resources of a minion (`saltlite help resources`)",
        modules=("proxy.*", "status.proxy_reconnect"),
        options=(
            "proxy", "proxy_always_alive", "proxy_deep_merge_pillar_in_opts", "proxy_keep_alive",
            "proxy_keep_alive_interval", "proxy_merge_grains_in_module", "proxy_merge_pillar_in_opts",
            "proxy_merge_pillar_in_opts_strategy", "add_proxymodule_to_opts", "proxy_mines_pillar",
        ),
    ),
    SaltFeature(
        "winrepo",
        "saltlite has no minions for Windows",
        modules=("winrepo.*", "cmd.powershell", "cmd.powershell_all"),
        runners=("winrepo.*",),
        options=("winrepo*", "win_repo*"),
    ),
    SaltFeature(
        "sdb",
        "saltlite has no sdb and no vault: put secrets into pillar",
        modules=("sdb.*", "vault.*", "nacl.*"),
        runners=("sdb.*", "vault.*", "nacl.*"),
        options=("vault",),
    ),
    NOT_SHIPPED,
    SaltFeature(
        "firmware of disks",
        "saltlite reads and changes no firmware of disks: `cmd.run 'smartctl --json -A /dev/sda'` shows the "
        "attributes, and hdparm does the rest",
        modules=("disk.hdparms", "disk.hpa", "disk.smart_attributes"),
    ),
    SaltFeature(
        "network.mod_bufsize",
        "saltlite reads ring buffers and changes none: `cmd.run 'ethtool -G eth0 rx 4096'` does",
        modules=("network.mod_bufsize",),
    ),
    SaltFeature(
        "cache.mine",
        "the mine is read by function: `saltlite-run mine.get '*' network.ip_addrs`",
        runners=("cache.mine",),
    ),
    SaltFeature(
        "pillar.file_exists",
        "the pillar's files are on the master, and a minion does not see them",
        modules=("pillar.file_exists",),
    ),
    SaltFeature(
        "test.module_report",
        "`sys.list_functions` lists the functions, and `test.not_loaded` the files that are not loaded",
        modules=("test.module_report",),
    ),
    SaltFeature(
        "test.tty",
        "`cmd.tty` writes to a terminal, as in Salt",
        modules=("test.tty",),
    ),
    SaltFeature(
        "clusters of masters",
        "masters share a PostgreSQL database instead of a cluster's files and keys (`saltlite help several-masters`)",
        options=("cluster_*", "eauth_tokens*", "keys.cache_driver", "pillar.cache_driver"),
    ),
)  # fmt: skip

STATE_OPTIONS = _names(
    """
    cmd_safe default_top disabled_requisites env_order failhard file_ignore_regex
    global_state_conditions jinja_env jinja_lstrip_blocks jinja_sls_env jinja_trim_blocks lock_saltenv pillarenv
    pillarenv_from_saltenv renderer renderer_blacklist renderer_whitelist saltenv state_aggregate state_auto_order
    state_max_parallel state_queue state_top state_top_saltenv test top_file_merging_strategy whitelist_state_modules
    """
)
"""Options of Salt's state compiler, which the minion's option `state_options` takes."""

RENAMED = {
    "publish_port": "port",
    "ret_port": "port",
    "master_port": "port",
    "keep_jobs_seconds": "keep_jobs",
    "master_finger": "fleet",
    "process_count_max": "jobs_max",
    "log_level_logfile": "log_level",
    "grains_dirs": "module_dirs",
    "render_dirs": "module_dirs",
    "netapi_enable_clients": "netapi_enable_clients in the file `api`",
    "auto_accept": "`saltlite key token create`",
    "autosign_file": "`saltlite key preaccept`",
    "autosign_grains_dir": "`saltlite key token create`",
    "autosign_timeout": "`saltlite key token create --expires`",
    "autoload_dynamic_modules": "`saltutil.sync_all`",
    "file_client": "`saltlite-call`, which needs no master",
    **dict.fromkeys(sorted(STATE_OPTIONS), "state_options of the minion"),
}
"""Options of Salt that have another name here, or whose work a command does."""

MEANINGLESS = _names(
    """
    acceptance_wait_time acceptance_wait_time_max always_verify_signature append_minionid_config_dirs auth_events
    auth_events_autosign_grains auth_events_pend_autosign_grains auth_mode auth_retries auth_safemode auth_timeout
    auth_tries cache cache_jobs cache_sreqs cli_summary client_acl_verify con_cache conf_file default_include
    detect_remote_minions disable_aes_with_tls discovery drop_messages_signature_fail dummy_pub
    enforce_mine_cache
    enable_legacy_startup_events encryption_algorithm event_match_type event_publisher_niceness
    event_return_niceness event_return_queue event_return_queue_max_seconds features file_buffer_size
    fileserver_interval fileserver_update_niceness fips_mode gather_job_timeout hash_type http_connect_timeout
    http_max_body http_request_timeout include ipc_mode ipc_write_buffer ipv6 keep_acl_in_token key_cache
    key_logfile key_pass keysize local log_datefmt log_datefmt_logfile log_fmt_console log_fmt_jid log_fmt_logfile
    log_fmt_minion_id log_rotate_backup_count log_rotate_max_bytes loop_interval maintenance_interval
    maintenance_niceness master_alive_interval master_async_mworker master_failback master_failback_interval
    master_mworker_max_inflight master_pubkey_signature master_roots master_shuffle master_sign_key_name
    master_sign_pubkey master_stats master_stats_event_iter master_tries master_type master_uri_format
    master_use_pubkey_signature max_event_size max_open_files memcache_debug memcache_expire_seconds
    memcache_full_cleanup memcache_max_items metrics minimum_auth_version minion_id_caching minion_id_lowercase
    minion_jid_queue_hwm minion_restart_command minion_sign_messages modules_max_memory multiprocessing
    mworker_niceness mworker_queue_niceness open_mode optimization_order permissive_acl permissive_pki_access
    pidfile pillar_safe_render_error ping_interval ping_on_rotate preserve_minion_cache pub_hwm pub_ret
    pub_server_niceness pub_server_write_queue_size publish_drain_timeout publish_session publish_signing_algorithm
    publish_timeout queue_dirs random_master random_reauth_delay random_startup_delay range_server recon_default
    recon_max recon_randomize rejected_retry remote_minions_port req_server_niceness request_channel_timeout
    request_channel_tries request_server_aes_session request_server_ttl require_minion_sign_messages
    resolve_dns_fallback rest_timeout restart_on_error retry_dns retry_dns_count return_retry_timer
    return_retry_timer_max return_retry_tries rotate_aes_key salt_cp_chunk_size search serial show_jid show_timeout
    sign_pub_messages signing_algorithm signing_key_pass sock_pool_size source_address source_interface_name
    source_publish_port source_ret_port sqlite_queue_dir ssl sudo_acl tcp_authentication_retries tcp_keepalive
    tcp_keepalive_cnt tcp_keepalive_idle tcp_keepalive_intvl tcp_master_pub_port tcp_master_publish_pull
    tcp_master_pull_port tcp_master_workers tcp_pub_port tcp_pull_port tcp_reconnect_backoff tracing transport
    unique_jid verify_env verify_master_pubkey_sign worker_pools worker_pools_enabled zmq_backlog zmq_filtering
    zmq_monitor
    """
)
"""Options of Salt without a meaning here, because what they tune is made otherwise: the wire, the keys, the processes
and caches of Salt."""

NOT_YET = _names(
    """
    allow_minion_key_revoke autoreject_file backup_mode batch_safe_limit batch_safe_size beacons_before_connect
    bootstrap_delay color disable_returners django_auth_path django_auth_settings eauth_acl_module
    enable_fqdns_grains enable_gpu_grains enable_lspci fileserver_events fileserver_followsymlinks
    fileserver_ignoresymlinks fileserver_verify_config grains_blacklist grains_cache grains_cache_expiration
    grains_deep_merge grains_refresh_every grains_refresh_pre_exec id_function log_granular_levels max_minions
    minion_id_remove_domain netapi_allow_raw_shell output output_file password pillar_cache pillar_cache_backend
    pillar_cache_ttl pillar_includes_override_sls pillar_mask_output pillar_merge_lists pillar_opts
    pillar_source_merging_strategy pillar_version saltpip_allow_find_links saltpip_disable_pip_version_check
    saltpip_no_deps saltpip_no_index saltpip_use_pythonpath scheduler_before_connect start_event_grains
    token_expire_user_override update_restart_services update_url use_master_when_local use_os_truststore username
    """
)
"""Options of Salt that have a meaning, and nothing here that does their work."""


def check_state_options(options: Mapping[str, object]) -> None:
    """Raises UsageError for an option that Salt's state compiler does not have."""
    for name in options:
        if name not in STATE_OPTIONS:
            raise UsageError(f"{name!r} is none of Salt's options of states: {', '.join(sorted(STATE_OPTIONS))}")


def missing_feature(function: str, *, runner: bool = False) -> str:
    """Why a function of Salt, or a runner, does not exist here and what to use, as a sentence without its stop; ""
    for any other name."""
    for one in FEATURES:
        if any(fnmatchcase(function, glob) for glob in (one.runners if runner else one.modules)):
            return f"{one.instead}; {SEE}"
    return ""


def missing_module(function: str) -> str:
    """Why a function is missing whose module nothing offers: the sentence for Salt's modules that do not ship; "" for
    any other name."""
    return f"{NOT_SHIPPED.instead}; {SEE}" if function.partition(".")[0] in _DO_NOT_SHIP else ""


RENAMED_GROUP, MEANINGLESS_GROUP, NOT_YET_GROUP = "renamed", "no meaning here", "not there yet"
GROUPS = (RENAMED_GROUP, MEANINGLESS_GROUP, NOT_YET_GROUP)
"""What can be said of an option of Salt that saltlite does not read."""


def option_of_salt(name: str) -> tuple[str, str]:
    """The group of an option of Salt, and what to use; ("", "") for an option that Salt does not have either."""
    if name in RENAMED:
        return RENAMED_GROUP, RENAMED[name]
    for one in FEATURES:
        if any(fnmatchcase(name, glob) for glob in one.options):
            return NOT_YET_GROUP, one.instead
    if name in MEANINGLESS:
        return MEANINGLESS_GROUP, ""
    if name in NOT_YET:
        return NOT_YET_GROUP, ""
    return "", ""
