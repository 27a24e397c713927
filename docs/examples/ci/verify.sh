#!/bin/sh
# For any CI with git and Python 3.11: install patchstack at a commit that you have read, every package by hash; verify, lint.
# POLICY is the target branch of a change (origin/main): all of the workspace file except the pins is read from there.
set -eu
commit=0123456789abcdef0123456789abcdef01234567 # v0.1.0
place=$(mktemp -d) && git init --quiet "$place/patchstack" && export RUNNER_TEMP="$place" GITHUB_OUTPUT="$place/python"
git -C "$place/patchstack" fetch --quiet --depth 1 "${PATCHSTACK_URL:?}" "$commit"
git -C "$place/patchstack" checkout --quiet "$commit"
python3 -I "$place/patchstack/ci/install.py" && python=$(sed 's/^python=//' "$GITHUB_OUTPUT")
set -- --workspace "${WORKSPACE:-patchstack.yaml}" --policy-from "${POLICY:?}"
"$python" -I -m patchstack verify --expect fork "$@" && "$python" -I -m patchstack lint "$@"
