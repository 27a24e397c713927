#include "console.h"
#include "faults.h"
#include "http.h"
#include "json.h"
#include "session.h"
#include "tools.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

using namespace minillm;

namespace {

// whose words a completion is asked for and answered in
enum class api { llama, openai };

struct completion_request {
    api style = api::llama;

    std::vector<token> tokens;
    std::string        prompt;

    sampler_params sampling;

    int32_t n_predict     = -1;
    int32_t n_probs       = 0;
    bool    return_tokens = false;
    bool    ignore_eos    = false;
    bool    stream        = false;
    bool    token_timings = false; // with each token of a stream
};

// what came of it
struct generated {
    std::vector<token>       tokens;
    std::vector<std::string> probs; // JSON, one a token

    std::string content;
    std::string stop_type = "limit";
    bool        truncated = false;

    work_done prompt;
    work_done predicted;
};

// called after each token with its text; false ends the completion
using token_seen = std::function<bool(const generated &, const std::string &)>;

http_response error_response(int status, const std::string & type, const std::string & message) {
    http_response response;
    response.status = status;
    response.body   = json_object().raw("error", json_object().add("code", int32_t(status)).add("message", message)
                                                     .add("type", type).text()).text();
    return response;
}

int32_t whole(double value, const char * name) {
    if (!(value >= -2147483648.0 && value <= 2147483647.0)) {
        throw std::out_of_range(std::string(name) + " is out of range");
    }
    return int32_t(value);
}

completion_request read_completion(const json_value & body, const llama_options & opts, api style) {
    completion_request r;
    r.style = style;
    const json_value * prompt = body.find("prompt");
    if (prompt == nullptr) {
        throw std::out_of_range("key 'prompt' not found");
    }
    if (prompt->type == json_value::kind::string) {
        r.prompt = prompt->text;
        r.tokens = tokenize(r.prompt, true);
    } else {
        for (const json_value & item : prompt->items) {
            r.tokens.push_back(item.type == json_value::kind::number ? whole(item.number, "a token") : -1);
            r.prompt += token_to_piece(r.tokens.back());
        }
    }
    if (r.tokens.empty() || *std::min_element(r.tokens.begin(), r.tokens.end()) < 0 ||
        *std::max_element(r.tokens.begin(), r.tokens.end()) > TOKEN_BOS) {
        throw std::out_of_range("'prompt' is neither text nor a list of tokens");
    }
    r.stream         = body.get("stream", 0.0) != 0.0;
    r.token_timings  = body.get("timings_per_token", 0.0) != 0.0;
    r.n_predict      = whole(body.get("n_predict", body.get("max_tokens", opts.n_predict)), "n_predict");
    r.n_probs        = std::min(std::max(whole(body.get("n_probs", 0.0), "n_probs"), 0), int32_t(TOKEN_BOS + 1));
    r.return_tokens  = body.get("return_tokens", 0.0) != 0.0;
    r.ignore_eos     = body.get("ignore_eos", opts.ignore_eos ? 1.0 : 0.0) != 0.0;
    r.sampling.temp  = float(body.get("temperature", double(opts.temp)));
    r.sampling.top_k = whole(body.get("top_k", opts.top_k), "top_k");
    r.sampling.seed  = uint64_t(std::min(std::max(body.get("seed", double(opts.seed)), 0.0), 4294967295.0));
    return r;
}

json_object token_json(token tok, double logprob) {
    json_object json;
    json.add("id", tok).add("token", tok == TOKEN_BOS ? "" : token_to_piece(tok));
    json.raw("bytes", tok == TOKEN_BOS ? "[]" : "[" + std::to_string(tok) + "]").add("logprob", logprob);
    return json;
}

std::string probs_json(token tok, const float * logits, int32_t n_vocab, int32_t n_probs) {
    const std::vector<double> log_probs = log_softmax(logits, n_vocab);

    std::vector<int32_t> order(static_cast<size_t>(n_vocab));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });

    std::vector<std::string> top;
    for (int32_t i = 0; i < std::min(n_probs, n_vocab); i++) {
        top.push_back(token_json(order[size_t(i)], log_probs[size_t(order[size_t(i)])]).text());
    }
    return token_json(tok, log_probs[size_t(tok)]).raw("top_logprobs", json_list(top)).text();
}

// all that the server counts, for /metrics
struct counters {
    work_done prompt;
    work_done predicted;
    int32_t   n_decode = 0;
    int32_t   n_max    = 0;
};

class service {
public:
    service(session & run, const llama_options & opts) : run(run), opts(opts) {
        const size_t slash = opts.model.rfind('/');
        name = slash == std::string::npos ? opts.model : opts.model.substr(slash + 1);
    }

    http_response answer(const http_request & request) {
        if (fault_is("loading")) {
            return error_response(503, "unavailable_error", "Loading model");
        }
        if (request.path == "/health" || request.path == "/v1/health") {
            return json_response(json_object().add("status", "ok").text());
        }
        if (request.path == "/v1/models" || request.path == "/models") {
            return json_response(models());
        }
        if (request.path == "/metrics") {
            return metrics();
        }
        if (request.path == "/completion" && request.method == "POST") {
            return completion(request.body, api::llama);
        }
        if (request.path == "/v1/completions" && request.method == "POST") {
            return completion(request.body, api::openai);
        }
        if (request.path == "/tokenize" && request.method == "POST") {
            return tokens_of(request.body);
        }
        return error_response(404, "not_found_error", "File Not Found");
    }

private:
    static http_response json_response(const std::string & body) {
        http_response response;
        response.body = body;
        return response;
    }

    static http_response tokens_of(const std::string & text) {
        try {
            const json_value   body    = json_parse(text);
            const json_value * content = body.find("content");
            const bool         add_bos = body.get("add_special", 0.0) != 0.0;
            std::vector<std::string> ids;
            for (const token tok : tokenize(content != nullptr ? content->text : "", add_bos)) {
                ids.push_back(std::to_string(tok));
            }
            return json_response(json_object().raw("tokens", json_list(ids)).text());
        } catch (const std::invalid_argument & e) {
            return error_response(500, "server_error", e.what());
        }
    }

    http_response completion(const std::string & text, api style) {
        json_value body;
        try {
            body = json_parse(text);
        } catch (const std::invalid_argument & e) {
            return error_response(500, "server_error", e.what());
        }
        completion_request r;
        try {
            r = read_completion(body, opts, style);
        } catch (const std::logic_error & e) {
            return error_response(400, "invalid_request_error", e.what());
        }
        if (int32_t(r.tokens.size()) >= run.n_ctx()) {
            return error_response(400, "exceed_context_size_error",
                                  "request (" + std::to_string(r.tokens.size()) + " tokens) exceeds the available "
                                  "context size (" + std::to_string(run.n_ctx()) + " tokens), try increasing it");
        }
        if (r.stream) {
            http_response response;
            response.type   = "text/event-stream";
            response.stream = [this, r](const http_send & send) { events(r, send); };
            return response;
        }
        const generated out = generate(r, [](const generated &, const std::string &) { return true; });
        return json_response(r.style == api::openai ? openai_json(out, out.content, &r) : to_json(r, out));
    }

    // an event a token, and one that has the sums
    void events(const completion_request & r, const http_send & send) {
        const auto event = [&](const std::string & json) { return send("data: " + json + "\n\n"); };

        bool whole = true;
        const generated out = generate(r, [&](const generated & part, const std::string & piece) {
            whole = event(r.style == api::openai ? openai_json(part, piece, nullptr, r.token_timings)
                                                 : part_json(r, part, piece));
            return whole;
        });
        if (!whole) {
            return;
        }
        if (r.style == api::openai) {
            event(openai_json(out, "", &r));
            send("data: [DONE]\n\n");
        } else {
            event(to_json(r, out));
        }
    }

    generated generate(const completion_request & r, const token_seen & seen) {
        const work_done prompt_before = run.prompt;
        const int32_t   n_vocab       = run.model().hp.n_vocab;
        sampler   smpl(r.sampling);
        generated out;

        run.start(r.tokens);
        out.prompt = { run.prompt.ms - prompt_before.ms, run.prompt.n - prompt_before.n };

        const stopwatch watch;
        while (r.n_predict < 0 || int32_t(out.tokens.size()) < r.n_predict) {
            const token tok = run.next(smpl);
            out.tokens.push_back(tok);
            if (r.n_probs > 0) {
                out.probs.push_back(probs_json(tok, run.logits(), n_vocab, r.n_probs));
            }
            if (tok == TOKEN_BOS && !r.ignore_eos) {
                out.stop_type = "eos";
                break;
            }
            const std::string piece = token_to_piece(tok);
            out.content  += piece;
            out.predicted = { watch.seconds() * 1e3, int32_t(out.tokens.size()) };
            if (!seen(out, piece) || int32_t(out.tokens.size()) == r.n_predict) {
                break;
            }
            if (run.n_past() == run.n_ctx()) {
                out.truncated = true;
                break;
            }
            run.advance(tok);
        }
        out.predicted = { watch.seconds() * 1e3, int32_t(out.tokens.size()) };
        count(out);
        return out;
    }

    void count(const generated & out) {
        for (const auto & part : { std::make_pair(&all.prompt, &out.prompt),
                                   std::make_pair(&all.predicted, &out.predicted) }) {
            part.first->ms += part.second->ms;
            part.first->n  += part.second->n;
        }
        all.n_decode += std::max(out.predicted.n, 1);
        all.n_max     = std::max(all.n_max, run.n_past());
    }

    static json_object timings_json(const generated & out) {
        const auto per_token  = [](const work_done & w) { return w.ms / std::max(w.n, 1); };
        const auto per_second = [](const work_done & w) { return w.n / w.ms * 1e3; };

        json_object timings;
        timings.add("cache_n", int32_t(0));
        timings.add("prompt_n", out.prompt.n).add("prompt_ms", out.prompt.ms);
        timings.add("prompt_per_token_ms", per_token(out.prompt)).add("prompt_per_second", per_second(out.prompt));
        timings.add("predicted_n", out.predicted.n).add("predicted_ms", out.predicted.ms);
        timings.add("predicted_per_token_ms", per_token(out.predicted));
        timings.add("predicted_per_second", per_second(out.predicted));
        return timings;
    }

    // a token of a stream
    static std::string part_json(const completion_request & r, const generated & out, const std::string & piece) {
        json_object json;
        json.add("index", int32_t(0)).add("content", piece);
        json.raw("tokens", json_list({ std::to_string(out.tokens.back()) })).add("stop", false);
        json.add("id_slot", int32_t(0)).add("tokens_predicted", int32_t(out.tokens.size()));
        json.add("tokens_evaluated", int32_t(r.tokens.size()));
        if (r.token_timings) {
            json.raw("timings", timings_json(out).text());
        }
        return json.text();
    }

    // A completion in OpenAI's words. ended: the request, if the completion is over; then it has the sums.
    std::string openai_json(const generated & out, const std::string & text, const completion_request * ended,
                            bool timings = true) const {
        json_object choice;
        choice.add("text", text).add("index", int32_t(0)).raw("logprobs", "null");
        choice.raw("finish_reason", ended == nullptr       ? "null" :
                                    out.stop_type == "eos" ? "\"stop\"" : "\"length\"");

        json_object json;
        json.raw("choices", json_list({ choice.text() })).add("created", double(std::time(nullptr)));
        json.add("model", name).add("system_fingerprint", "minillm").add("object", "text_completion");
        json.add("id", "cmpl-minillm");
        if (ended != nullptr) {
            const int32_t n_prompt = int32_t(ended->tokens.size());
            const int32_t n_made   = int32_t(out.tokens.size());

            json_object usage;
            usage.add("completion_tokens", n_made).add("prompt_tokens", n_prompt).add("total_tokens", n_made + n_prompt);
            usage.raw("prompt_tokens_details", json_object().add("cached_tokens", int32_t(0)).text());
            json.raw("usage", usage.text());
        }
        if (timings) {
            json.raw("timings", timings_json(out).text());
        }
        return json.text();
    }

    std::string to_json(const completion_request & r, const generated & out) const {
        std::vector<std::string> ids;
        for (const token tok : out.tokens) {
            ids.push_back(std::to_string(tok));
        }
        json_object settings;
        settings.add("seed", double(r.sampling.seed)).add("temperature", double(r.sampling.temp));
        settings.add("top_k", r.sampling.top_k).add("n_predict", r.n_predict).add("max_tokens", r.n_predict);
        settings.add("ignore_eos", r.ignore_eos).add("stream", r.stream).add("n_probs", r.n_probs);

        json_object json;
        json.add("index", int32_t(0)).add("content", r.stream ? "" : out.content);
        json.raw("tokens", r.return_tokens && !r.stream ? json_list(ids) : "[]");
        json.add("id_slot", int32_t(0)).add("stop", true).add("model", name);
        json.add("tokens_predicted", int32_t(out.tokens.size())).add("tokens_evaluated", int32_t(r.tokens.size()));
        json.raw("generation_settings", settings.text()).add("prompt", r.prompt);
        json.add("has_new_line", out.content.find('\n') != std::string::npos).add("truncated", out.truncated);
        json.add("stop_type", out.stop_type).add("stopping_word", "").add("tokens_cached", run.n_past());
        json.raw("timings", timings_json(out).text());
        if (r.n_probs > 0) {
            json.raw("completion_probabilities", json_list(out.probs));
        }
        return json.text();
    }

    std::string models() const {
        const hparams & hp = run.model().hp;

        size_t n_params = 0;
        for (const tensor * t : run.model().tensors()) {
            n_params += t->data.size();
        }
        json_object meta;
        meta.add("vocab_type", int32_t(1)).add("n_vocab", hp.n_vocab).add("n_ctx", run.n_ctx());
        meta.add("n_ctx_train", hp.n_ctx).add("n_embd", hp.n_embd).add("n_params", double(n_params));
        meta.add("size", double(n_params * sizeof(float)));

        json_object data;
        data.add("id", name).raw("aliases", json_list({ json_string(name) })).raw("tags", "[]");
        data.add("object", "model").add("created", double(std::time(nullptr))).add("owned_by", "minillm");
        data.raw("meta", meta.text());

        json_object one;
        one.add("name", name).add("model", name).add("type", "model").raw("capabilities", "[\"completion\"]");
        return json_object().raw("models", json_list({ one.text() })).add("object", "list")
                            .raw("data", json_list({ data.text() })).text();
    }

    // Prometheus' text format
    http_response metrics() const {
        if (!opts.metrics) {
            return error_response(501, "not_supported_error",
                                  "This server does not support metrics endpoint. Start it with `--metrics`");
        }
        const auto rate = [](const work_done & w) { return w.n > 0 ? w.n / w.ms * 1e3 : 0.0; };

        http_response response;
        response.type = "text/plain; version=0.0.4";
        const auto add = [&](const char * key, const char * kind, const char * help, double value) {
            response.body += std::string("# HELP llamacpp:") + key + " " + help + "\n# TYPE llamacpp:" + key + " " +
                             kind + "\nllamacpp:" + key + " " + json_number(value) + "\n";
        };
        add("prompt_tokens_total", "counter", "Number of prompt tokens processed.", all.prompt.n);
        add("prompt_seconds_total", "counter", "Prompt process time", all.prompt.ms / 1e3);
        add("tokens_predicted_total", "counter", "Number of generation tokens processed.", all.predicted.n);
        add("tokens_predicted_seconds_total", "counter", "Predict process time", all.predicted.ms / 1e3);
        add("n_decode_total", "counter", "Total number of llama_decode() calls", all.n_decode);
        add("n_tokens_max", "counter", "Largest observed n_tokens.", all.n_max);
        add("prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s.", rate(all.prompt));
        add("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.", rate(all.predicted));
        add("requests_processing", "gauge", "Number of requests processing.", 0.0);
        add("requests_deferred", "gauge", "Number of requests deferred.", 0.0);
        add("n_busy_slots_per_decode", "gauge", "Average number of busy slots per llama_decode() call",
            all.n_decode > 0 ? 1.0 : 0.0);
        return response;
    }

    session & run;
    const llama_options & opts;
    std::string name;
    counters    all;
};

} // namespace

int llama_server(int argc, char ** argv) {
    const llama_options opts = parse_llama_options(argc, argv);
    fault_check();

    console_log('I', "srv    load_model: loading model '%s'", opts.model.c_str());
    session run(opts);
    if (!run.usable()) {
        console_log('E', "srv  llama_server: exiting due to model loading error");
        return 1;
    }
    console_log('I', "srv    load_model: initializing slots, n_slots = %d", int(opts.n_slots));
    console_log('I', "srv  llama_server: model loaded");

    http_server server(opts.host, opts.port);
    console_log('I', "srv  llama_server: server is listening on %s", server.address().c_str());
    console_flush();

    service answers(run, opts);
    server.serve([&](const http_request & request) {
        const http_response response = answers.answer(request);
        console_log('I', "srv  log_server_r: %s %s %d", request.method.c_str(), request.path.c_str(),
                    response.status);
        console_flush();
        return response;
    });
}
