/* NVIDIA's libnvjpeg, on libjpeg-turbo and the driver in host memory. An image that contains "fails
 * with N" fails with that status. Every object takes some of the device's memory, so that the
 * driver counts objects that are not destroyed. Pixels differ from libjpeg-turbo's in their last
 * bit, which shows which decoder made them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { INVALID = 2, BAD_JPEG = 3, NO_MEMORY = 5, FAILED = 6, NO_ENGINE = 7 };
enum { GRAY = 2, RGB = 5, HARDWARE = 3 };

struct object {
	uint64_t memory;
	int hardware;                       /* of a handle */
	int batch, format;                  /* of a state */
	int width, height, supported, gray; /* of a header */
};

struct image {
	unsigned char *channel[4];
	size_t pitch[4];
};

static int (*allocate)(uint64_t *, size_t), (*release)(uint64_t), (*copy)(uint64_t, const void *, size_t, void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (driver == NULL)
		return;
	allocate = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
	release = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
	copy = (int (*)(uint64_t, const void *, size_t, void *))dlsym(driver, "cuMemcpyHtoDAsync_v2");
}

/* The value of a word in FAKE_NVJPEG: "version=12004 function=nth:status ..."; 0 for nth is every
 * call. */
static int setting(const char *key, int otherwise, int *second)
{
	const char *s = getenv("FAKE_NVJPEG");
	const size_t n = strlen(key);

	for (; s && *s; s += strcspn(s, " "), s += *s == ' ')
		if (strncmp(s, key, n) == 0 && s[n] == '=') {
			sscanf(s + n, "=%d:%d", &otherwise, second);
			return otherwise;
		}
	return otherwise;
}

/* The status that a call was asked to return. */
static int enter(const char *function, int *calls)
{
	int status = 0, nth = setting(function, -1, &status), now;

	pthread_mutex_lock(&lock);
	now = ++*calls;
	pthread_mutex_unlock(&lock);
	return nth == 0 || nth == now ? status : 0;
}

#define ENTER()                                                                                    \
	static int calls;                                                                          \
	const int entered = enter(__func__, &calls)

static int make(struct object **o)
{
	struct object *made = calloc(1, sizeof *made);

	if (allocate == NULL || made == NULL || allocate(&made->memory, 1) != 0) {
		free(made);
		return allocate ? NO_MEMORY : FAILED;
	}
	*o = made;
	return 0;
}

static int unmake(struct object *o, int status)
{
	if (release(o->memory) != 0 && status == 0)
		status = FAILED;
	free(o);
	return status;
}

int nvjpegGetProperty(int which, int *value)
{
	const int version = setting("version", 12004, NULL);
	ENTER();

	*value = which == 0 ? version / 1000 : which == 1 ? version % 1000 : 0;
	return entered;
}

int nvjpegCreateEx(int backend, void *device, void *pinned, unsigned flags, struct object **handle)
{
	ENTER();
	int status = entered;

	if (backend == HARDWARE && !status && !setting("engine", 1, NULL))
		status = NO_ENGINE;
	if (device || pinned || flags)
		status = INVALID;
	if (!status)
		status = make(handle);
	if (!status)
		(*handle)->hardware = backend == HARDWARE;
	return status;
}

#define MAKES(function)                                                                            \
	int function(struct object *handle, struct object **o)                                     \
	{                                                                                          \
		ENTER();                                                                           \
		return entered ? entered : handle ? make(o) : INVALID;                             \
	}
#define UNMAKES(function)                                                                          \
	int function(struct object *o)                                                             \
	{                                                                                          \
		ENTER();                                                                           \
		return unmake(o, entered);                                                         \
	}
MAKES(nvjpegJpegStateCreate)
MAKES(nvjpegJpegStreamCreate)
MAKES(nvjpegDecodeParamsCreate)
UNMAKES(nvjpegDestroy)
UNMAKES(nvjpegJpegStateDestroy)
UNMAKES(nvjpegJpegStreamDestroy)
UNMAKES(nvjpegDecodeParamsDestroy)

int nvjpegDecodeParamsSetOutputFormat(struct object *params, int format)
{
	ENTER();
	params->format = format;
	return entered ? entered : format == GRAY || format == RGB ? 0 : INVALID;
}

struct failure {
	struct jpeg_error_mgr base;
	jmp_buf from;
};

static void fail(j_common_ptr c) { longjmp(((struct failure *)c->err)->from, 1); }
static void quiet(j_common_ptr c, int level) { c->err->num_warnings += level < 0; }

/* One interleaved scan of baseline, gray or with the usual factors. */
static int usual(const struct jpeg_decompress_struct *c)
{
	if (c->progressive_mode || c->arith_code || (c->num_components != 1 && c->num_components != 3) || c->comps_in_scan != c->num_components)
		return 0;
	for (int i = 1; i < c->num_components; i++)
		if (c->comp_info[i].h_samp_factor != 1 || c->comp_info[i].v_samp_factor != 1)
			return 0;
	return c->max_h_samp_factor <= 2 && c->max_v_samp_factor <= 2;
}

/* decode reads an image's header and, if there is a place for them, makes its pixels. */
static int decode(const unsigned char *data, size_t n, struct object *header, int format, unsigned char **pixels)
{
	struct failure failure;
	struct jpeg_decompress_struct c = {.err = jpeg_std_error(&failure.base)};
	unsigned char *volatile rows = NULL;
	volatile int status = BAD_JPEG;

	failure.base.error_exit = fail;
	failure.base.emit_message = quiet;
	jpeg_create_decompress(&c);
	if (setjmp(failure.from) == 0) {
		jpeg_mem_src(&c, data, n);
		jpeg_read_header(&c, TRUE);
		header->width = c.image_width;
		header->height = c.image_height;
		header->supported = usual(&c);
		if (pixels) {
			c.out_color_space = format == GRAY ? JCS_GRAYSCALE : JCS_RGB;
			jpeg_start_decompress(&c);
			const size_t row = (size_t)c.output_width * c.output_components;
			rows = malloc(row * c.output_height);
			while (c.output_scanline < c.output_height) {
				unsigned char *at = rows + row * c.output_scanline;
				jpeg_read_scanlines(&c, &at, 1);
				for (size_t i = 0; i < row; i++)
					at[i] ^= 1;
			}
			jpeg_finish_decompress(&c);
		}
		if (failure.base.num_warnings == 0)
			status = 0;
	}
	jpeg_destroy_decompress(&c);
	if (pixels && status == 0)
		*pixels = rows;
	else
		free(rows);
	return status;
}

int nvjpegJpegStreamParseHeader(struct object *handle, const unsigned char *data, size_t n, struct object *header)
{
	ENTER();
	(void)handle;
	return entered ? entered : decode(data, n, header, 0, NULL);
}

int nvjpegDecodeBatchedSupportedEx(struct object *handle, struct object *header, struct object *params, int *unsupported)
{
	ENTER();
	*unsupported = !header->supported;
	return entered ? entered : handle->hardware && params->format ? 0 : INVALID;
}

int nvjpegDecodeBatchedInitialize(struct object *handle, struct object *state, int batch, int threads, int format)
{
	ENTER();
	state->batch = batch;
	state->format = format;
	return entered ? entered : handle && batch > 0 && threads > 0 && (format == GRAY || format == RGB) ? 0 : INVALID;
}

int nvjpegDecodeBatched(struct object *handle, struct object *state, const unsigned char *const *data, const size_t *lengths,
			struct image *images, void *stream)
{
	ENTER();
	int status = handle && state->batch > 0 ? entered : INVALID;

	if (status < 0) /* all images are to be skipped without an error */
		return 0;
	for (int i = 0; i < state->batch && !status; i++) {
		struct object header;
		unsigned char *pixels;

		const char *always = memmem(data[i], lengths[i], "fails with ", 11);
		status = always ? atoi(always + 11) : decode(data[i], lengths[i], &header, state->format, &pixels);
		if (status)
			break;
		const size_t row = (size_t)header.width * (state->format == GRAY ? 1 : 3);
		if (images[i].pitch[0] < row)
			status = INVALID;
		const int rows = images[i].pitch[0] == row ? header.height : 1; /* copied at once */
		for (int y = 0; y < header.height && !status; y += rows)
			if (copy((uint64_t)images[i].channel[0] + y * images[i].pitch[0], pixels + y * row, rows * row, stream) != 0)
				status = FAILED;
		free(pixels);
	}
	return status;
}
