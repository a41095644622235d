"""`salt.state`: the words that a state's arguments may not have. saltlite runs no states.

Modules that take the arguments of states, such as `iptables`, leave these words out.
"""

STATE_REQUISITE_KEYWORDS = frozenset({
    "listen", "onchanges", "onchanges_any", "onfail", "onfail_all", "onfail_any", "onfail_stop", "prereq",
    "prerequired", "require", "require_any", "watch", "watch_any",
})  # fmt: skip
STATE_REQUISITE_IN_KEYWORDS = frozenset({
    "listen_in", "onchanges_in", "onfail_in", "prereq_in", "require_in", "watch_in",
})  # fmt: skip
STATE_RUNTIME_KEYWORDS = frozenset({
    "__env__", "__id__", "__orchestration_jid__", "__prereq__", "__prerequiring__", "__pub_arg", "__pub_fun",
    "__pub_jid", "__pub_minion_is_target", "__pub_pid", "__pub_pure_resource_target", "__pub_resource_job",
    "__pub_resource_target", "__pub_resource_targets", "__pub_ret", "__pub_tgt", "__pub_tgt_type", "__pub_user",
    "__sls__", "__sls_included_from__", "__umask__", "check_cmd", "cmd_opts_exclude", "creates", "failhard",
    "fire_event", "fun", "no_log", "onlyif", "order", "parallel", "prereq", "prereq_in", "reload_grains",
    "reload_modules", "reload_pillar", "retry", "runas", "runas_password", "saltenv", "state", "umask", "unless",
    "use", "use_in",
})  # fmt: skip
STATE_INTERNAL_KEYWORDS = STATE_REQUISITE_KEYWORDS | STATE_REQUISITE_IN_KEYWORDS | STATE_RUNTIME_KEYWORDS
