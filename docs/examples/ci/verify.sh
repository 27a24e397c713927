#!/bin/sh
# Any CI that has git and Python 3.11: install patchstack at a commit you have read, every package by hash; verify, lint.
set -eu
commit=0123456789abcdef0123456789abcdef01234567 # v0.1.0
git init --quiet .patchstack && git -C .patchstack fetch --quiet --depth 1 "${PATCHSTACK_URL:?}" "$commit"
git -C .patchstack checkout --quiet "$commit"
export RUNNER_TEMP="${TMPDIR:-/tmp}" GITHUB_OUTPUT=.patchstack/.git/python
python3 -I .patchstack/ci/install.py && python=$(sed 's/^python=//' "$GITHUB_OUTPUT")
"$python" -I -m patchstack verify --expect fork --workspace "${WORKSPACE:-patchstack.yaml}"
"$python" -I -m patchstack lint --workspace "${WORKSPACE:-patchstack.yaml}"
