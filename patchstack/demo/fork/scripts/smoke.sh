#!/bin/sh
# Completes a few prompts with the paged KV cache off and on and compares the transcripts.
#
#   scripts/smoke.sh [BUILD_FOLDER]

set -eu

bin=${1:-build}/bin/minillm-completion

for seed in 1 2 3; do
    off=$(MINILLM_NO_TIMINGS=1 MINILLM_KV_PAGED=0 "$bin" --random-seed "$seed" -p "Hello" -n 48)
    on=$(MINILLM_NO_TIMINGS=1 MINILLM_KV_PAGED=1 "$bin" --random-seed "$seed" -p "Hello" -n 48)
    if [ "$off" != "$on" ]; then
        printf 'seed %s: the transcripts differ\n  off: %s\n  on:  %s\n' "$seed" "$off" "$on" >&2
        exit 1
    fi
    printf 'seed %s: OK\n' "$seed"
done
