#!/bin/bash
# What llama-server of a build answers, and what test-recurrent-state-rollback prints, for the tests of gates:
#   capture.sh BIN MODELS OUT, with models made by `python -m tests.support.tiny_gguf ARCHITECTURE FILE --weights f32`:
#   llama.gguf, llama-s2.gguf (--seed 2), llama-f16.gguf (--weights f16), qwen35.gguf.
set -eu
bin=$(realpath "$1") models=$(realpath "$2") out=$(realpath "$3")
cd "$models"  # so that answers name models, and not where they are
ask() {  # NAME MODEL CONTEXT QUESTION [ARGUMENT...]
    local name=$1 model=$2 context=$3 question=$4 port=$((20000 + RANDOM % 20000))
    shift 4
    env -i PATH="$PATH" "$bin/llama-server" -m "$model" -c "$context" -np 1 -fit off --host 127.0.0.1 --port "$port" \
        "$@" </dev/null >/dev/null 2>&1 &
    local server=$!
    until curl -s -f -o /dev/null "http://127.0.0.1:$port/health"; do kill -0 "$server"; sleep 0.1; done
    curl -s -i -H "Connection: close" -d "$question" "http://127.0.0.1:$port/completion" >"$out/$name.http"
    kill "$server"
    wait "$server" || true
}
question() {
    printf '{"prompt":"The capital of France is","n_predict":%d,"temperature":0,"seed":1,"n_probs":3,' "$1"
    printf '"return_tokens":true,"cache_prompt":false,"stream":false}'
}
ask plain llama.gguf 512 "$(question 12)"
ask other-seed llama-s2.gguf 512 "$(question 12)"
ask f16 llama-f16.gguf 512 "$(question 12)"
ask cut llama.gguf 256 "$(question 300 | sed 's/"n_probs":3/"n_probs":0/')"
ask too-long llama.gguf 256 "{\"prompt\":\"$(printf 'x%.0s' {1..400})\",\"n_predict\":8}"
ask drafted llama.gguf 512 "$(question 12)" -md llama-s2.gguf --spec-type draft-simple
ask end-of-text llama.gguf 512 "$(question 12 | sed 's/,"stream"/,"logit_bias":[[258,1000]],"stream"/')"
for model in llama qwen35; do
    env -i PATH="$PATH" "$bin/test-recurrent-state-rollback" -m "$model.gguf" -c 512 -fit off \
        2>"$out/rollback-$model.err" </dev/null  # all of it is on stderr
done
