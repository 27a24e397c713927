#include "ggml-cuda.h"
#include "mmv-id.h"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

static_assert(MINILLM_MMV_ROWS * MMV_LANES <= 1024, "a block of threads has more than a GPU takes");

#define CUDA_CHECK(call) check(call, #call, __FILE__, __LINE__)

static void check(cudaError_t error, const char * call, const char * file, int line) {
    if (error != cudaSuccess) {
        throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error) + " in " + call + " at " + file +
                                 ":" + std::to_string(line));
    }
}

// Block (b, i) has the rows from b * MINILLM_MMV_ROWS on of expert ids[i], one warp a row.
static __global__ void mul_mat_vec_id(int32_t n_cols, int32_t n_rows, const float * w, const int32_t * ids,
                                      const float * x, int32_t x_step, float * dst) {
    const int32_t lane = int32_t(threadIdx.x);
    const int32_t row  = int32_t(blockIdx.x) * MINILLM_MMV_ROWS + int32_t(threadIdx.y);
    const int32_t i    = int32_t(blockIdx.y);

    // the whole warp leaves: all lanes have the same row
    if (row >= n_rows) {
        return;
    }

    const float * w_row = w + (int64_t(ids[i]) * n_rows + row) * n_cols;
    const float * x_id  = x + int64_t(i) * x_step;

    float sum = 0.0f;
    for (int32_t c = lane; c < n_cols; c += MMV_LANES) {
        sum += w_row[c] * x_id[c];
    }
    for (int32_t half = MMV_LANES / 2; half > 0; half /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, half);
    }
    if (lane == 0) {
        dst[int64_t(i) * n_rows + row] = sum;
    }
}

namespace {

// n values in the memory of the GPU, as long as the buffer lives
template <typename T> class device_buffer {
public:
    explicit device_buffer(int64_t n) : n_bytes(size_t(n) * sizeof(T)) { CUDA_CHECK(cudaMalloc(&data, n_bytes)); }
    ~device_buffer() { cudaFree(data); }

    device_buffer(const device_buffer &) = delete;
    device_buffer & operator=(const device_buffer &) = delete;

    void upload(const T * src)   { CUDA_CHECK(cudaMemcpy(data, src, n_bytes, cudaMemcpyHostToDevice)); }
    void download(T * dst) const { CUDA_CHECK(cudaMemcpy(dst, data, n_bytes, cudaMemcpyDeviceToHost)); }

    T * get() const { return data; }

private:
    size_t n_bytes;
    T *    data = nullptr;
};

} // namespace

bool ggml_cuda_is_built() {
    return true;
}

const char * ggml_cuda_device() {
    static const std::string name = [] {
        cudaDeviceProp prop;
        int n_devices = 0;

        // an error is an answer too: no driver, or no GPU
        if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0 ||
            cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
            return std::string();
        }
        return std::string(prop.name);
    }();
    return name.empty() ? nullptr : name.c_str();
}

void ggml_cuda_mul_mat_id(int32_t n_cols, int32_t n_rows, int32_t n_expert, int32_t n_ids, const float * w,
                          const int32_t * ids, const float * x, int32_t x_step, float * dst) {
    // the weights travel with every call: small code, slow, and never stale
    device_buffer<float>   w_dev{ int64_t(n_expert) * n_rows * n_cols };
    device_buffer<int32_t> ids_dev{ n_ids };
    device_buffer<float>   x_dev{ int64_t(n_ids - 1) * x_step + n_cols };
    device_buffer<float>   dst_dev{ int64_t(n_ids) * n_rows };

    w_dev.upload(w);
    ids_dev.upload(ids);
    x_dev.upload(x);

    const dim3 threads(MMV_LANES, MINILLM_MMV_ROWS);
    const dim3 blocks(unsigned((n_rows + MINILLM_MMV_ROWS - 1) / MINILLM_MMV_ROWS), unsigned(n_ids));

    mul_mat_vec_id<<<blocks, threads>>>(n_cols, n_rows, w_dev.get(), ids_dev.get(), x_dev.get(), x_step,
                                        dst_dev.get());
    CUDA_CHECK(cudaGetLastError());

    // waits for the kernel
    dst_dev.download(dst);
}
