//go:build linux && (amd64 || arm64)

/*
 * The functions of NVML, for the linker. Each jumps to the address in its slot: at first
 * missing, later the driver's function. See nvml.go for the reason.
 *
 * They are hidden, so that a library that is loaded later does not find them instead of its
 * own.
 */

#include <dlfcn.h>
#include <stddef.h>

#include "nvmltable.h"

/* What every NVML function returns that the driver does not have. */
static int missing(void)
{
	return 13; /* NVML_ERROR_FUNCTION_NOT_FOUND */
}

#if defined(__x86_64__)
#define JUMP(slot) "\tjmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(slot) "\tadrp x16, " slot "\n\tldr x16, [x16, :lo12:" slot "]\n\tbr x16\n"
#endif

#define HIDDEN __attribute__((visibility("hidden")))

/* The jump leaves all registers and the stack to the caller, so it works with any arguments. */
#define X(f)                                                                                       \
	HIDDEN void *batchfs_slot_##f = (void *)missing;                                           \
	__asm__(".pushsection .text\n"                                                             \
		"\t.balign 16\n"                                                                   \
		"\t.globl " #f "\n"                                                                \
		"\t.hidden " #f "\n"                                                               \
		"\t.type " #f ", %function\n"                                                      \
		#f ":\n" JUMP("batchfs_slot_" #f)                                                  \
		"\t.size " #f ", .-" #f "\n"                                                       \
		"\t.popsection\n");
#include "nvmlnames.h"
#undef X

static const struct {
	const char *name;
	void **slot;
} table[] = {
#define X(f) {#f, &batchfs_slot_##f},
#include "nvmlnames.h"
#undef X
};

int batchfs_nvml_open(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (library == NULL)
		return 0;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		void *f = dlsym(library, table[i].name);

		if (f != NULL)
			*table[i].slot = f;
	}
	return 1;
}
