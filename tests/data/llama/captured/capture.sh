#!/bin/bash
# Makes the files of this directory anew: what the programs of a real llama.cpp build print, run on tiny models.
#
#   tests/data/llama/captured/capture.sh BIN PYTHON     BIN: a CPU build; PYTHON: one with gguf, numpy and pytest
#
# Output is lost at random, so most runs are repeated until their sentinel is there, and one until it is not.
set -eu

bin=$(realpath "$1")
python=$(realpath -s "$2")
here=$(realpath "$(dirname "$0")")
port=${PORT:-18237}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here/../../../.."
"$python" -m tests.support.tiny_gguf llama "$work/tiny.gguf" --seed 1
"$python" -m tests.support.tiny_gguf llama "$work/tiny-f32.gguf" --seed 1 --weights f32
"$python" -m tests.support.tiny_gguf llama "$work/other.gguf" --seed 2
cd "$work"
for i in $(seq 260); do printf 'The %d birds of %d trees sing. ' $((i * 7 % 31)) $((i * i % 17)); done > text.txt

# capture NAME PROGRAM ARGS: NAME.out, NAME.err; the last line of NAME.err is the exit code
capture() {
    local name=$1 program=$2 code=0
    shift 2
    env -i PATH="$PATH" GGML_NO_BACKTRACE=1 ${preload:+LD_PRELOAD="$preload"} timeout 120 "$bin/$program" "$@" \
        < /dev/null > "$here/$name.out" 2> "$here/$name.err" || code=$?
    printf 'exit code %d\n' "$code" >> "$here/$name.err"
    sed -i "s#$bin/##g; s#$work/##g" "$here/$name.out" "$here/$name.err"
}

# capture_whole SENTINEL NAME PROGRAM ARGS: again until stderr has the sentinel
capture_whole() {
    local sentinel=$1 name=$2
    shift
    until capture "$@" && grep -q "$sentinel" "$here/$name.err"; do :; done
}

on_tiny=(-m tiny.gguf -fit off)
completion=("${on_tiny[@]}" -ngl 99 -fa on -c 512 --temp 0 --seed 1 -n 24 -p 'The capital of France is' --perf)
capture_whole 'graphs reused =' completion llama-completion "${completion[@]}"
while capture completion-lost llama-completion "${completion[@]}"; do
    cmp -s "$here/completion.out" "$here/completion-lost.out" || break
done
capture_whole 'unable to create context' completion-no-model llama-completion -m none.gguf -fit off -n 1 -p a --perf
capture completion-no-option llama-completion "${on_tiny[@]}" -p a --none

capture backend-ops test-backend-ops test -b CPU -o ARGMAX,L2_NORM -j 1
# a backend that fails: every tenth graph is left out, and its result is whatever was in memory
printf '%s\n' 'int ggml_backend_graph_compute_async(void *, void *);' 'void ggml_backend_synchronize(void *);' \
    'int ggml_backend_graph_compute(void *b, void *g) { static int n; if (++n % 10 == 4) return 0;' \
    'int e = ggml_backend_graph_compute_async(b, g); ggml_backend_synchronize(b); return e; }' > fails.c
cc -shared -fPIC -o fails.so fails.c
preload=$work/fails.so capture backend-ops-fail test-backend-ops test -b CPU -o ARGMAX,L2_NORM -j 1
preload=$work/fails.so capture backend-ops-fail-csv test-backend-ops test -b CPU -o ARGMAX -j 1 --output csv
capture backend-ops-no-case test-backend-ops test -b CPU -o NONE_SUCH -j 1
capture backend-ops-skipped test-backend-ops test -b CUDA0 -o ARGMAX -j 1
capture backend-ops-csv test-backend-ops test -b CPU -o ARGMAX -j 1 --output csv
capture backend-ops-support test-backend-ops support -b CPU -o ARGMAX,L2_NORM --output csv
capture backend-ops-support-console test-backend-ops support -b CPU -o ARGMAX
unsupported='GET_ROWS_BACK(type=bf16,n=256,m=5,r=4,b=1,v=0)'
capture backend-ops-unsupported test-backend-ops test -b CPU -o "$unsupported" -j 1
capture backend-ops-usage test-backend-ops --version

batch=(-fit off -c 128 -b 128 -ub 128 --chunks 3 --kl-divergence-base base.kl --perf -lv 4)
breakdown='common_memory_breakdown_print: |   - Host'
capture_whole "$breakdown" perplexity llama-perplexity -m tiny.gguf -f text.txt "${batch[@]}"
capture_whole "$breakdown" kl llama-perplexity -m tiny-f32.gguf --kl-divergence "${batch[@]}"
capture_whole "$breakdown" kl-other llama-perplexity -m other.gguf --kl-divergence "${batch[@]}"
capture_whole "$breakdown" kl-no-base llama-perplexity -m tiny.gguf --kl-divergence "${batch[@]/base.kl/none.kl}"
capture_whole 'tokenizes to only' perplexity-short llama-perplexity -m tiny.gguf -p 'too short' -fit off -c 128 -b 128

rows=("${on_tiny[@]}" -c 512 -b 256 -ub 128 -npp 32,64 -ntg 8 -npl 1,2 --perf -lv 4)
capture_whole 'graphs reused =' batched-bench-jsonl llama-batched-bench "${rows[@]}" --output-format jsonl
capture_whole 'graphs reused =' batched-bench-md llama-batched-bench "${rows[@]}"

url=http://127.0.0.1:$port
env -i PATH="$PATH" "$bin/llama-server" "${on_tiny[@]}" -c 512 -np 1 --host 127.0.0.1 --port "$port" --metrics \
    < /dev/null > server.out 2> server.err &
server=$!
until curl -s -i "$url/health" > reply && grep -q 'HTTP/1.1 200' reply; do
    if grep -q 'HTTP/1.1 503' reply; then mv reply "$here/server-loading.http"; fi
done

# ask NAME PATH [BODY]: NAME.http, with headers
ask() {
    curl -s -i "$url$2" ${3:+-d "$3"} > "$here/server-$1.http"
}
common='"n_predict":4,"temperature":0,"seed":1,"return_tokens":true,"n_probs":2,"cache_prompt":false'
ask health /health
ask models /v1/models
ask completion /completion "{\"prompt\":\"Hello\",$common}"
ask completion-tokens /completion "{\"prompt\":[72,105],$common}"
ask completion-bad /completion '{"prompt":'
ask completion-no-prompt /completion '{}'
ask metrics /metrics
ask none /none
kill "$server"
wait "$server" || code=$?
printf 'exit code %d\n' "${code:-0}" >> server.err
cp server.out server.err "$here"
