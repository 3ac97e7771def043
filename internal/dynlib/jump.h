/*
 * Defines the functions that the file NAMES lists, for the linker, and OPEN, which makes them
 * jump to those of a library:
 *
 *	const char *OPEN(const char *library)
 *
 * It returns NULL, or what is wrong, and must not be called from two threads at once. The
 * library stays open. Functions that it lacks return MISSING, as do all before OPEN.
 *
 * NAMES contains X(function) for each function, or X(function, suffix, ...) if the library calls
 * it functionsuffix. They are hidden, so that no library finds them instead of its own.
 */

#include <dlfcn.h>
#include <stddef.h>

static int missing(void)
{
	return MISSING;
}

#if defined(__x86_64__)
#define JUMP(slot) "\tjmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(slot) "\tadrp x16, " slot "\n\tldr x16, [x16, :lo12:" slot "]\n\tbr x16\n"
#endif

#define HIDDEN __attribute__((visibility("hidden")))

/* The jump leaves all registers and the stack to the caller, so it works with any arguments. */
#define X(f, ...)                                                                                  \
	HIDDEN void *batchfs_slot_##f = (void *)missing;                                           \
	__asm__(".pushsection .text\n"                                                             \
		"\t.balign 16\n"                                                                   \
		"\t.globl " #f "\n"                                                                \
		"\t.hidden " #f "\n"                                                               \
		"\t.type " #f ", %function\n"                                                      \
		#f ":\n" JUMP("batchfs_slot_" #f)                                                  \
		"\t.size " #f ", .-" #f "\n"                                                       \
		"\t.popsection\n");
#include NAMES
#undef X

static const struct {
	const char *name;
	void **slot;
} table[] = {
#define X(...) ENTRY(__VA_ARGS__, , )
#define ENTRY(f, suffix, ...) {#f #suffix, &batchfs_slot_##f},
#include NAMES
#undef X
};

static void *library;

HIDDEN const char *OPEN(const char *path)
{
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (library == NULL)
		return dlerror();
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		void *f = dlsym(library, table[i].name);

		if (f != NULL)
			*table[i].slot = f;
	}
	return NULL;
}
