#include "model.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

// A model file: "MLLM", the version, the fields of hparams, then each tensor as its
// name, its two sizes and its data. All numbers have 4 bytes, the lowest one first.

namespace minillm {

static const char     MAGIC[4] = { 'M', 'L', 'L', 'M' };
static const uint32_t VERSION  = 1;

static void write_u32(std::ostream & out, uint32_t v) {
    const char bytes[4] = { char(v & 0xff), char(v >> 8 & 0xff), char(v >> 16 & 0xff), char(v >> 24) };
    out.write(bytes, 4);
}

static uint32_t read_u32(std::istream & in) {
    unsigned char b[4];
    if (!in.read(reinterpret_cast<char *>(b), 4)) {
        throw std::runtime_error("the model file ends too early");
    }
    return uint32_t(b[0]) | uint32_t(b[1]) << 8 | uint32_t(b[2]) << 16 | uint32_t(b[3]) << 24;
}

static void write_f32(std::ostream & out, float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof(bits));
    write_u32(out, bits);
}

static float read_f32(std::istream & in) {
    const uint32_t bits = read_u32(in);
    float v;
    std::memcpy(&v, &bits, sizeof(v));
    return v;
}

// one list for both directions, so that they cannot differ
static std::vector<int32_t *> sizes(hparams & hp) {
    return { &hp.n_vocab, &hp.n_ctx, &hp.n_embd, &hp.n_layer, &hp.n_head, &hp.n_head_kv,
             &hp.n_ff, &hp.n_ff_exp, &hp.n_expert, &hp.n_expert_used };
}

void model::save(const std::string & path) const {
    std::ofstream out(path, std::ios::binary);

    out.write(MAGIC, sizeof(MAGIC));
    write_u32(out, VERSION);

    hparams fields = hp;
    for (const int32_t * field : sizes(fields)) {
        write_u32(out, uint32_t(*field));
    }
    write_f32(out, hp.rope_base);
    write_f32(out, hp.norm_eps);

    for (const tensor * t : tensors()) {
        write_u32(out, uint32_t(t->name.size()));
        out.write(t->name.data(), std::streamsize(t->name.size()));
        write_u32(out, uint32_t(t->n_cols));
        write_u32(out, uint32_t(t->n_rows));
        for (const float w : t->data) {
            write_f32(out, w);
        }
    }

    out.flush();
    if (!out) {
        throw std::runtime_error("cannot write " + path);
    }
}

model model::load(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        throw std::runtime_error("cannot open " + path);
    }

    char magic[4];
    if (!in.read(magic, sizeof(magic)) || std::memcmp(magic, MAGIC, sizeof(MAGIC)) != 0) {
        throw std::runtime_error(path + " is not a minillm model");
    }
    if (read_u32(in) != VERSION) {
        throw std::runtime_error(path + " has a version that this program cannot read");
    }

    hparams hp;
    for (int32_t * field : sizes(hp)) {
        *field = int32_t(read_u32(in));
    }
    hp.rope_base = read_f32(in);
    hp.norm_eps  = read_f32(in);

    model mdl(hp);
    for (tensor * t : mdl.tensors()) {
        std::string name(t->name.size(), '\0');

        const bool same_size = read_u32(in) == t->name.size();
        if (!same_size || !in.read(&name[0], std::streamsize(name.size())) || name != t->name ||
            read_u32(in) != uint32_t(t->n_cols) || read_u32(in) != uint32_t(t->n_rows)) {
            throw std::runtime_error(path + " lacks the tensor " + t->name + " or has it in another size");
        }
        for (float & w : t->data) {
            w = read_f32(in);
        }
    }
    return mdl;
}

} // namespace minillm
