#!/bin/sh
# Make a virtual environment and install patchstack into it, with what its tests and checks need.
set -eu
venv=${1:-.venv}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: patchstack needs Python 3.11 or newer; $python is $("$python" -V 2>&1)" >&2
    echo "hint: make PYTHON=python3.12 ..." >&2
    exit 3
}
command -v git >/dev/null || {
    echo "error: git is not installed" >&2
    exit 3
}
rm -rf "$venv"
if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    # Debian ships python3 without ensurepip; an installed pip works without it.
    rm -rf "$venv"
    if "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip install --quiet --user --break-system-packages virtualenv
        "$python" -m virtualenv --quiet "$venv"
    else
        echo "error: this Python can make no virtual environment" >&2
        echo "hint: apt-get install python3-venv" >&2
        exit 3
    fi
fi
# cmake and ninja are wheels as well. What the machine lacks of them is in tools/, for a PATH that must not name the rest.
set -- --editable '.[dev]'
mkdir "$venv/tools"
provide() {
    for program in "$@"; do
        ln -s "../bin/$program" "$venv/tools/$program"
    done
}
command -v cmake >/dev/null || { set -- "$@" cmake && provide cmake ctest; }
command -v ninja >/dev/null || { set -- "$@" ninja && provide ninja; }
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint ci/constraints.txt "$@"
touch "$venv/.installed"
