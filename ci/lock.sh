#!/bin/sh
# Lock the packages that the GitHub Action installs, every file of every platform by hash: core.txt for what looks at
# series, all.txt for what builds and gates, dist.txt for what makes patchstack's own package, site.txt for what makes the
# site of the docs. Versions are those of ci/constraints.txt, with which everything is tested.
# tests/unit/ci/test_locks.py compares them with pyproject.toml.
set -eu
venv=${VENV:-.venv}
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9
export UV_CUSTOM_COMPILE_COMMAND='make requirements'

lock() {
    target=$1
    shift
    "$venv/bin/uv" pip compile "$@" --universal --python-version 3.11 --generate-hashes --no-annotate --quiet \
        --constraints ci/constraints.txt --output-file "ci/requirements/$target" >/dev/null
}

lock core.txt pyproject.toml
lock all.txt pyproject.toml --extra build --extra cuda --extra docker
echo hatchling | lock dist.txt -
printf '%s\n' sphinx myst-parser furo | lock site.txt -
