
# What follows is the same for every token. A copy that was cut off on its way does nothing: `main` is the last line.
umask 022
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH

die() {
    printf 'saltlite: %s\n' "$*" >&2
    exit 1
}

python_is_new() { "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for one in python3 python3.13 python3.12 python3.11; do
        if python_is_new "$one"; then
            command -v "$one"
            return
        fi
    done
    return 1
}

# From the index of packages that this machine has already.
add_python() {
    printf 'saltlite: there is no Python 3.11 or newer: it is installed first\n' >&2
    if command -v apt-get; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3
    elif command -v dnf; then
        dnf -q -y install python3.11
    elif command -v zypper; then
        zypper -n -q install python311
    elif command -v apk; then
        apk add -q python3
    fi
}

# BusyBox's wget can pin no key. Another server could only send what the digest refuses, and no more than the bundle has.
fetch() {
    if command -v curl >/dev/null; then
        curl -sSfk --pinnedpubkey "$PIN" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O - --no-check-certificate "$1" | head -c "$BYTES"
    else
        die "there is neither curl nor wget"
    fi
}

clean() { [ -z "${here-}" ] || rm -rf "$here"; }

main() {
    [ "$(id -u)" = 0 ] || die "run it as root, as in: curl ... | JOIN_TOKEN=... sudo --preserve-env=JOIN_TOKEN sh"
    case ${JOIN_TOKEN-} in
        slj1.*."$TOKEN_ID".*) ;;
        *) die "JOIN_TOKEN is not the join token that this address is for" ;;
    esac
    # It stays in this process and in one file: programs that are started below do not get it.
    token=$JOIN_TOKEN
    unset JOIN_TOKEN
    [ ! -e /usr/lib/systemd/system/saltlite-minion.service ] ||
        die "the package saltlite-minion is installed here: set master and join_token in /etc/saltlite/minion"
    python=$(find_python) || {
        add_python >/dev/null || die "no Python could be installed: install Python 3.11 or newer"
        python=$(find_python) || die "this machine has no Python 3.11 or newer: install one"
    }
    here=$(mktemp -d) || die "no temporary folder can be made"
    trap clean EXIT
    trap 'die interrupted' HUP INT TERM
    fetch "$URL/bundle" >"$here/bundle.tar" || die "the bundle could not be fetched from $URL"
    found=$("$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$here/bundle.tar")
    [ "$found" = "$SHA256" ] || die "the bundle was altered on its way, or cut off: nothing was installed"
    (cd "$here" && tar -xof bundle.tar) || die "the bundle cannot be unpacked: is the disk full?"
    (umask 077 && printf '%s\n' "$token" >"$here/join_token")
    {
        printf '# Written by the installer of saltlite.\nmaster: "%s"\njoin_token_file: /etc/saltlite/cloud/join_token\n' "$MASTER"
        [ -z "${ID-}" ] || printf 'id: "%s"\n' "$ID"
    } >"$here/minion"
    : >"$here/owned"
    {
        printf 'INSTALL=wheel INSTALL_DIR=/opt/saltlite INDEX= PYTHON=%s VERSION=%s\n' "$python" "$VERSION"
        printf 'IS_INSTALLED=no WHEELS_ARE_ALL=yes CONFIG_DIR=/etc/saltlite MINION_USER=saltlite\n'
        printf 'STATUS_FILE=/var/lib/saltlite/minion/status.json START_S=30 REPLACE_MINION=yes\n'
    } >"$here/settings"
    sh "$here/deploy.sh" -c "$here" >/dev/null || die "nothing was installed"
    mkdir -p /usr/local/bin
    ln -sf /opt/saltlite/bin/saltlite-call /usr/local/bin/saltlite-call
    printf 'saltlite: this machine is a minion of %s\n' "$MASTER"
    [ -d /run/systemd/system ] || printf 'saltlite: it has no systemd: start /opt/saltlite/bin/saltlite-minion at boot\n'
}

unset ID
while [ "$#" -gt 0 ]; do
    case $1 in
        --id) ID=${2-} ;;
        *) die "$1 is not expected: sh -s -- --id ID" ;;
    esac
    case $ID in
        '' | *[!A-Za-z0-9._-]*) die "--id takes a minion id" ;;
    esac
    shift 2
done
main
