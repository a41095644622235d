#!/bin/sh
# Makes this machine a minion: deploy.sh -c FOLDER
# Rolls back what it made:        deploy.sh -c FOLDER undo
# The same, if it made anything:  deploy.sh -c FOLDER undo-any
# The same, if FOLDER made it:    deploy.sh -c FOLDER undo-own
#
# FOLDER was uploaded; its file `settings` has the parameters. Everything is entered in the list $made before it is made, so
# that a failed or interrupted deployment leaves nothing. Standard output has lines `name=value` for the caller, with
# `left=` for everything that could not be removed; the last line of standard error is the reason of a failure.
set -u
umask 022
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
newline='
'

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

note() { [ -z "$1" ] || printf '%s\n' "$1" >>"$made" || die "$made cannot be written"; }

# -- rollback

# All but the entry $1 of the list, which stays there.
undo() {
    [ -f "$made" ] || return 0
    stays='' begun='' folders='' keeps=${1-}
    set -f
    IFS=$newline
    # The last thing that was made goes first. The list stays until all of it is gone, so this may be done again.
    for entry in $(sed '1!G;h;$!d' "$made"); do
        unset IFS
        if [ "$entry" = "$keeps" ]; then
            stays=$entry$newline$stays
            continue
        fi
        roll_back "${entry%% *}" "${entry#* }" || {
            printf 'left=%s\n' "${entry#* }"
            stays=$entry$newline$stays
        }
    done
    set +f
    if [ -z "$stays" ]; then
        rm -f "$made"
        IFS=$newline
        for path in $folders; do rmdir "$path" 2>/dev/null; done
        unset IFS
        return
    fi
    # What is left has to be known of later, and so do the folders that it and the list keep in place.
    IFS=$newline
    for path in $folders; do [ ! -d "$path" ] || stays="folder $path$newline$stays"; done
    unset IFS
    printf 'by %s\n%s' "$begun" "$stays" >"$made.new" && mv "$made.new" "$made"
}

# Fails where the thing is still there.
roll_back() {
    case $1 in
        by) begun=${begun:-$2} ;;
        unit)
            systemctl disable --now "$2" >/dev/null 2>&1
            rm -f "/etc/systemd/system/$2.service"
            systemctl daemon-reload >/dev/null 2>&1
            [ ! -e "/etc/systemd/system/$2.service" ] && ! systemctl is-active --quiet "$2"
            ;;
        restart) systemctl try-restart "$2" >/dev/null 2>&1 || : ;;
        process) end_process "$2" ;;
        user)
            userdel "$2" >/dev/null 2>&1 || deluser "$2" >/dev/null 2>&1
            ! id "$2" >/dev/null 2>&1
            ;;
        folder) folders=$folders$newline$2 ;;
        tree)
            rm -rf "$2"
            [ ! -e "$2" ] && [ ! -L "$2" ]
            ;;
    esac
}

end_process() {
    # It writes its number a moment after it was started, and an interrupt may come in between.
    tries=0
    until [ -s "$1" ] || [ "$tries" -ge 10 ]; do
        tries=$((tries + 1))
        pause
    done
    pid=$(cat "$1" 2>/dev/null) || return 0
    ! is_minion "$pid" || kill "$pid" 2>/dev/null
    # Its other processes end a moment after it, and write to its folders until then.
    tries=0
    while running=$(minion_processes "$pid") && [ -n "$running" ]; do
        tries=$((tries + 1))
        # shellcheck disable=SC2086 # the numbers are words
        [ "$tries" -lt 50 ] || kill -9 $running 2>/dev/null
        [ "$tries" -lt 60 ] || return 1
        pause
    done
}

# The numbers of the minion's processes: $1, and the others of the group that it leads.
minion_processes() (
    set +f
    for folder in /proc/[0-9]*; do
        read -r line 2>/dev/null <"$folder/stat" || continue
        # shellcheck disable=SC2086 # after the name: state, parent, group
        set -- "$1" ${line##*) }
        if [ "$4" = "$1" ] || [ "${folder#/proc/}" = "$1" ]; then
            ! is_minion "${folder#/proc/}" || printf '%s ' "${folder#/proc/}"
        fi
    done
)

# The kernel gives a number again: only a process that runs the minion is meant.
is_minion() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -q saltlite-minion; }

pause() { sleep 0.1 2>/dev/null || sleep 1; }

# -- making

# Folders that are missing, the highest one first.
missing() {
    [ ! -d "$1" ] || return 0
    missing "$(dirname "$1")"
    printf 'folder %s\n' "$1"
}

# The list lies in the first folder that is made, so it can be written only after it.
begin_list() {
    found=$(missing "$own")
    mkdir -p "$own" || die "the folder $own cannot be made"
    note "by $here"
    note "$found"
}

install_saltlite() {
    [ "$INSTALL" != none ] || {
        [ -x "$command" ] || die "there is no $command: install saltlite there, or let it be installed (install: wheel)"
        return 0
    }
    [ "$IS_INSTALLED" != yes ] || return 0
    [ -n "$PYTHON" ] || die "there is no Python 3.11 or later: install one, or name it in the setting python"
    fresh=no
    if [ ! -e "$INSTALL_DIR" ]; then
        note "tree $INSTALL_DIR"
        fresh=yes
    fi
    if ! "$INSTALL_DIR/bin/python" -c '' 2>/dev/null; then
        drop_links
        "$PYTHON" -m venv --without-pip "$INSTALL_DIR" >"$here/log" 2>&1 || die "no virtualenv can be made: $(why)"
    fi
    # It may have a password in it, which everybody could read on a command line.
    [ -z "$INDEX" ] || { PIP_INDEX_URL=$INDEX && export PIP_INDEX_URL; }
    if [ "$fresh" = yes ]; then
        pip_install || die "pip could not install saltlite: $(why)"
        chmod 755 "$INSTALL_DIR"
        return 0
    fi
    # An interrupted pip leaves packages that are listed as installed and are not complete.
    { pip_install && is_installed; } || pip_install --ignore-installed || die "pip could not install saltlite: $(why)"
    is_installed || die "saltlite is installed, but $command does not start: $("$command" --version 2>&1 | tail -n 1)"
}

is_installed() { "$command" --version 2>/dev/null | grep -q -F " $VERSION"; }

# The links of a virtualenv to an interpreter that was removed are in the way of new ones.
drop_links() {
    [ -f "$INSTALL_DIR/pyvenv.cfg" ] || return 0
    for link in "$INSTALL_DIR"/bin/python*; do
        [ ! -L "$link" ] || rm -f "$link"
    done
}

pip_install() {
    set -- install --disable-pip-version-check --no-input --no-cache-dir --find-links "$here/wheels" "$@" \
        "saltlite==$VERSION"
    [ "$WHEELS_ARE_ALL" != yes ] || ! pip "$@" --no-index || return 0
    pip "$@"
}

pip() {
    for wheel in "$here"/wheels/pip-*.whl; do
        if [ -f "$wheel" ]; then
            "$INSTALL_DIR/bin/python" "$wheel/pip" "$@" >"$here/log" 2>&1
            return
        fi
    done
    # It did not travel along, so Python has to bring one.
    "$INSTALL_DIR/bin/python" -m pip --version >/dev/null 2>&1 ||
        "$INSTALL_DIR/bin/python" -m ensurepip >"$here/log" 2>&1 || return
    "$INSTALL_DIR/bin/python" -m pip "$@" >"$here/log" 2>&1
}

why() { grep -E 'No space left|ERROR|rror:' "$here/log" | tail -n 1 | grep . || tail -n 1 "$here/log"; }

make_user() {
    [ "$(id -u)" = 0 ] || return 0
    ! id "$MINION_USER" >/dev/null 2>&1 || return 0
    note "user $MINION_USER"
    useradd --system --no-create-home --shell /usr/sbin/nologin "$MINION_USER" >"$here/log" 2>&1 ||
        adduser -S -D -H "$MINION_USER" >"$here/log" 2>&1 ||
        die "the user $MINION_USER of the minion cannot be made: $(tail -n 1 "$here/log")"
}

write_configuration() {
    note "$(missing "$CONFIG_DIR/minion.d")"
    mkdir -p "$CONFIG_DIR/minion.d" || die "the folder $CONFIG_DIR/minion.d cannot be made"
    if [ ! -e "$CONFIG_DIR/minion" ]; then
        note "tree $CONFIG_DIR/minion"
        : >"$CONFIG_DIR/minion" || die "$CONFIG_DIR/minion cannot be written"
    fi
    put "$here/minion" "$CONFIG_DIR/minion.d/90-cloud.conf"
    [ ! -f "$here/join_token" ] || put "$here/join_token" "$own/join_token"
    # What the minion makes is ours to remove only if it was not there before.
    while read -r path; do
        if [ -n "$path" ] && [ ! -e "$path" ]; then
            note "$(missing "$(dirname "$path")")"
            note "tree $path"
        fi
    done <"$here/owned"
}

put() {
    note "tree $2"
    (umask 077 && cp "$1" "$2.new") && mv "$2.new" "$2" && return 0
    rm -f "$2.new"
    die "$2 cannot be written"
}

start() {
    rm -f "$STATUS_FILE"
    if [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
        start_unit
        printf 'started=systemd\n'
    else
        start_detached
        printf 'started=detached\n'
    fi
}

start_unit() {
    if systemctl cat saltlite-minion >/dev/null 2>&1; then
        note "restart saltlite-minion"
    else
        note "unit saltlite-minion"
        cp "$here/unit" /etc/systemd/system/saltlite-minion.service || die "the unit cannot be written"
        systemctl daemon-reload >"$here/log" 2>&1 || die "systemd did not take the unit: $(tail -n 1 "$here/log")"
    fi
    systemctl enable saltlite-minion >"$here/log" 2>&1 || die "the unit cannot be enabled: $(tail -n 1 "$here/log")"
    systemctl restart saltlite-minion >"$here/log" 2>&1 ||
        die "the minion did not start: $(journalctl -u saltlite-minion -n 1 -o cat 2>/dev/null || tail -n 1 "$here/log")"
}

start_detached() {
    note "tree $own/output"
    note "tree $own/pid"
    note "process $own/pid"
    # A session of its own, so that the end of this login is not the end of it.
    detach=$(command -v setsid || command -v nohup) || die "there is neither setsid nor nohup"
    # Nothing of what is started may hold on to the output of this script, for which the other side waits.
    # shellcheck disable=SC2016 # $$, $0 and $@ are those of the shell that becomes the minion
    (
        umask 077
        exec "$detach" sh -c 'echo $$ >"$0" && cd / && exec "$@"' "$own/pid" "$command" -c "$CONFIG_DIR" \
            >"$own/output" 2>&1
    ) </dev/null >/dev/null 2>&1 &
}

# Whether the deployment that began the list still runs.
is_under_way() {
    other=$(sed -n 's/^by //p' "$made" | tail -n 1)
    pid=$(cat "$other/pid" 2>/dev/null) && grep -q "$other" "/proc/$pid/cmdline" 2>/dev/null
}

# The deployment that began the list may have died with its command, or with the machine.
remove_upload() {
    other=$(sed -n 's/^by //p' "$made" | tail -n 1)
    case $other in
        */saltlite-cloud.*.????????) [ ! -O "$other" ] || [ -L "$other" ] || rm -rf "$other" ;;
    esac
}

runs() {
    if [ -f "$own/pid" ]; then
        is_minion "$(cat "$own/pid")"
    else
        [ ! -d /run/systemd/system ] || systemctl is-active --quiet saltlite-minion
    fi
}

wait_until_it_works() {
    until=$(($(date +%s) + START_S))
    tries=0
    while ! has_phase ready; do
        # It takes a moment before it is the minion.
        tries=$((tries + 1))
        [ "$tries" -lt 5 ] || runs || die "the minion ended: $(tail -n 1 "$own/output" 2>/dev/null)"
        # The master has answered: waiting longer would not make it take the token.
        [ ! -f "$own/join_token" ] || ! has_phase pending || die "the master does not accept the join token: it is used up, \
was revoked, has expired, or is not for the id $(minion_id)"
        [ "$(date +%s)" -lt "$until" ] || die "the minion runs, and has not reached its master within $START_S s: \
$(sed -n 's/.*"reason": "\([^"]*\)".*/\1/p' "$STATUS_FILE" 2>/dev/null)"
        # Without a token somebody has to accept its key first.
        [ -f "$own/join_token" ] || [ "$tries" -lt 10 ] || return 0
        pause
    done
    rm -f "$own/join_token"
}

minion_id() {
    id=$("$INSTALL_DIR/bin/saltlite-call" -c "$CONFIG_DIR" --local --out txt grains.get id 2>/dev/null)
    printf '%s' "${id#local: }"
}

has_phase() { grep -q "\"phase\": \"$1\"" "$STATUS_FILE" 2>/dev/null; }

deploy() {
    if [ -f "$made" ]; then
        ! is_under_way || die "another deployment to this machine is under way"
        [ "$REPLACE_MINION" = yes ] || ! runs ||
            die "saltlite-cloud has made this machine a minion before: destroy that one first, or set replace_minion: true"
        remove_upload
        # A virtualenv of this version, which was looked at before, is used again.
        if [ "$IS_INSTALLED" = yes ]; then undo "tree $INSTALL_DIR"; else undo; fi
    fi
    trap 'status=$?; trap - EXIT; [ "$status" = 0 ] || undo 2>/dev/null; exit "$status"' EXIT
    trap 'die "interrupted"' HUP INT TERM
    begin_list
    install_saltlite
    make_user
    write_configuration
    start
    wait_until_it_works
}

[ "${1-}" = -c ] || die "usage: deploy.sh -c FOLDER [undo | undo-any | undo-own]"
here=$2
# shellcheck source=/dev/null # written for each machine
. "$here/settings"
own=$CONFIG_DIR/cloud
made=$own/made
command=$INSTALL_DIR/bin/saltlite-minion
case ${3-} in
    undo) if [ -f "$made" ]; then undo; else printf 'left=%s\n' "what was deployed, for there is no list $made"; fi ;;
    undo-any) undo ;;
    undo-own) ! grep -q -x "by $here" "$made" 2>/dev/null || undo ;;
    *) deploy ;;
esac
