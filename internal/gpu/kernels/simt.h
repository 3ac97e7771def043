/* The same source for a GPU and for any C compiler. A kernel is a sequence of phases: EACH(i, n)
 * runs its body once for every i in [0, n), spread over the threads of a block, and SYNC() stands
 * between phases. Bodies of one phase must not depend on one another. So a block of a single thread
 * gives the same result, which is how C compilers run it. With SIMT_THREADS, a block has as many
 * threads as the launch says.
 *
 * STORE and LOAD are for memory that several threads use in one phase, if any order gives the same
 * result. BX, BY and BZ are the block's place in the grid. GY and GZ are the grid's size, which is
 * limited to 65,535 and so may be less than there is to do. */
#ifndef BFS_SIMT_H
#define BFS_SIMT_H

#if defined(__CUDA__)
#define KERNEL(threads) extern "C" __attribute__((global, launch_bounds(threads, 1))) void
#define SHARED(type, name) extern __attribute__((shared)) type name[]
#define TID __nvvm_read_ptx_sreg_tid_x()
#define THREADS __nvvm_read_ptx_sreg_ntid_x()
#define BX __nvvm_read_ptx_sreg_ctaid_x()
#define BY __nvvm_read_ptx_sreg_ctaid_y()
#define BZ __nvvm_read_ptx_sreg_ctaid_z()
#define GY __nvvm_read_ptx_sreg_nctaid_y()
#define GZ __nvvm_read_ptx_sreg_nctaid_z()
#define SYNC() __syncthreads()
#define STORE(x, v) (*(volatile uint32_t *)&(x) = (v))
#define LOAD(x) (*(volatile uint32_t *)&(x))
#else
typedef struct {
    unsigned tid, threads, bx, by, bz, gy, gz;
    void *shared, *barrier;
} simt_thread;
extern __thread simt_thread simt;
void simt_sync(int which); /* numbered from 0 in the source */
#define KERNEL(threads) void
#define SHARED(type, name) type *const name = (type *)simt.shared
#define TID simt.tid
#define THREADS simt.threads
#define BX simt.bx
#define BY simt.by
#define BZ simt.bz
#define GY simt.gy
#define GZ simt.gz
#define SYNC() simt_sync(__COUNTER__)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#endif

#define EACH(i, n) for (int i = (int)TID; i < (n); i += (int)THREADS)

#endif
