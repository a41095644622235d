"""Run commands of the operating system.

Called from the command line, a command text goes through the shell, as the operator typed it; called by
another module it does not, unless it says ``python_shell=True``. Children stay in the process group of
their job, so that killing the job ends them.

All functions that run a command take these keyword arguments besides their own:

=================== ====================================================================================
``shell``           path of the shell; ``/bin/sh``
``python_shell``    True: the text goes through the shell. False: it is split into words, no shell runs
``env``             variables to set: a dict, or a list of dicts
``clean_env``       the command sees ``env`` and nothing else
``rstrip``          False keeps white space at the end of the output
``umask``           octal text such as ``077``
``output_encoding`` how to decode the output; what does not fit becomes U+FFFD
``output_loglevel`` the level at which command and output are logged: ``debug``, or ``quiet`` for neither
``hide_output``     return no output
``timeout``         seconds after which the command and its children are killed
``reset_system_locale``  False keeps the minion's locale; otherwise the command runs in the C locale
``ignore_retcode``  the job's return code stays 0
``prepend_path``    folders, parted by colons, that are looked in for programs before those of ``PATH``
``template``        ``jinja``: the text is a template; ``saltenv`` is where its includes are
``redirect_stderr`` False keeps error output out of the result of ``cmd.run``
``raise_err``       raise an error when the command fails
``success_retcodes``  return codes, as a list or ``1,2``, that count as 0
``success_stdout``  output texts that make the return code 0; ``success_stderr`` likewise
=================== ====================================================================================

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

__virtualname__ = "cmd"

__parts__ = {
    "programs": ["has_exec", "shells", "which", "which_bin"],
    "running": ["retcode", "run", "run_all", "run_bg", "run_chroot", "run_stderr", "run_stdout", "shell"],
    "scripts": ["exec_code", "exec_code_all", "script", "script_retcode"],
}


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__
