// Kernels that each press on one part of a GPU. One file and no headers. Every kernel takes how often it goes round, so that
// the length of a step is a parameter and not a rebuild. `hardware/src/nvidia/kernels.rs` makes families of them.
typedef unsigned long long u64;
typedef unsigned int u32;

// fp32 pipe: four chains at a time.
extern "C" __global__ void k_fma(float* out, u64 iters) {
  float a = threadIdx.x * 1e-3f + 1.0f, x0 = 1.0f, x1 = 1.1f, x2 = 1.2f, x3 = 1.3f;
  for (u64 i = 0; i < iters; ++i) {
    x0 = fmaf(x0, a, x1);
    x1 = fmaf(x1, a, x2);
    x2 = fmaf(x2, a, x3);
    x3 = fmaf(x3, a, x0);
  }
  if (x0 + x1 + x2 + x3 == 12345.678f) out[0] = x0;  // keeps the loop
}

#if __CUDA_ARCH__ >= 800
// Tensor pipe: bf16 in, fp32 out, two chains at a time.
extern "C" __global__ void k_mma(float* out, u64 iters) {
  u32 a0 = 0x3f803f80u ^ threadIdx.x, a1 = a0 + 1, a2 = a0 + 2, a3 = a0 + 3, b0 = a0 + 4, b1 = a0 + 5;
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  for (u64 i = 0; i < iters; ++i) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  if (c0 + c1 + c2 + c3 + d0 + d1 + d2 + d3 == 12345.678f) out[0] = c0;
}
#endif

// Device memory where the buffers are much larger than the second-level cache, that cache where they are much smaller.
extern "C" __global__ void k_copy(const float4* __restrict__ in, float4* __restrict__ out, u64 n, u64 iters) {
  u64 stride = (u64)gridDim.x * blockDim.x, start = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  for (u64 k = 0; k < iters; ++k) {
    for (u64 i = start; i < n; i += stride) {
      float4 v = in[i];
      v.x += 1.0f;
      out[i] = v;
    }
  }
}

// Shared-memory pipe; blocks are powers of two and ask for four bytes a thread, or more to be fewer at a time.
extern "C" __global__ void k_smem(float* out, u64 iters) {
  extern __shared__ float s[];
  u32 t = threadIdx.x, n = blockDim.x;
  s[t] = t;
  __syncthreads();
  float v = 0;
  for (u64 i = 0; i < iters; ++i) {
    v += s[(t + i) & (n - 1)];
    s[t] = v * 0.5f;
    __syncwarp();
  }
  if (v == 12345.678f) out[0] = v;
}

// Launches.
extern "C" __global__ void k_empty(u64 x) {
  if (x == 0xdeadbeefULL) asm volatile("trap;");
}

// Holds its multiprocessors for a time and computes nothing.
extern "C" __global__ void k_spin(u64 ns) {
  u64 begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begun < ns);
}
