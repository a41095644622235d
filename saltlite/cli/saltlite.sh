#!/bin/sh
''':'
# The command `saltlite`, as a shell script that starts Python on itself with two flags. `-S` puts off the module site,
# which takes as long as a whole job; saltlite.cli.start runs it later where it is needed. `-P` keeps this folder out of
# the path of modules.
#
# The installer of the package writes the right interpreter into the script `saltlite-cli` beside this one. Where that
# is not a plain path of a program, `saltlite-cli` is the command: it starts Python in the ordinary way.
case $0 in
*/*) command=$0 ;;
*) command=./$0 ;;
esac
if [ -L "$command" ]; then
    command=$(readlink -f -- "$command") || exit 127
fi
ordinary=${command%/*}/saltlite-cli
read -r line <"$ordinary" || exit 127
python=${line#'#!'}
case $python in
"$line" | *[!a-zA-Z0-9_./+@~-]* | /bin/sh) exec "$ordinary" "$@" ;;
/*python*) exec "$python" -S -P "$command" "$@" ;;
esac
exec "$ordinary" "$@"
'''
import os
import sys

prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
for packages in ("site-packages", "dist-packages"):
    folder = f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/{packages}"
    if os.path.exists(f"{folder}/saltlite/cli/start.py"):
        sys.path.append(folder)
        break
    try:
        with open(f"{folder}/_saltlite.pth", encoding="utf-8") as lines:  # of an installation with `pip install -e`
            sys.path += [folder, *(line for line in lines.read().splitlines() if line.startswith("/"))]
        break
    except OSError:
        continue
else:
    import site

    site.main()

from saltlite.cli.start import main

main()
