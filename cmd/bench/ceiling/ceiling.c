/* The ceiling that batchfs is measured against: libjpeg-turbo, or libspng, decodes the
 * same files in full, into one reused buffer per thread, on all cores, and does nothing
 * else. Without HAVE_SPNG, libpng decodes PNG files.
 *
 * usage: ceiling THREADS PASSES FILE...    prints images and seconds
 *        ceiling -libraries                prints the decoders */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>
#ifdef HAVE_SPNG
#include <spng.h>
#else
#include <png.h>
#endif

struct file { unsigned char *data; unsigned long size; const char *path; };
struct buffer { unsigned char *data; size_t cap; };

static struct file *files;
static long count, total;
static atomic_long next;

static void fail(const char *path, const char *why) {
	fprintf(stderr, "ceiling: %s: %s\n", path, why);
	exit(1);
}

static void load(struct file *f, const char *path) {
	FILE *in = fopen(path, "rb");
	if (!in) { perror(path); exit(1); }
	fseek(in, 0, SEEK_END);
	f->size = (unsigned long)ftell(in);
	f->path = path;
	rewind(in);
	f->data = malloc(f->size);
	if (fread(f->data, 1, f->size, in) != f->size) { perror(path); exit(1); }
	fclose(in);
}

static unsigned char *need(struct buffer *b, size_t size) {
	if (size > b->cap) { free(b->data); b->data = malloc(size); b->cap = size; }
	return b->data;
}

static void decode_jpeg(struct jpeg_decompress_struct *c, struct file *f, struct buffer *b) {
	jpeg_mem_src(c, f->data, f->size);
	jpeg_read_header(c, TRUE);
	c->out_color_space = JCS_RGB;
	jpeg_start_decompress(c);
	size_t stride = (size_t)c->output_width * 3;
	unsigned char *pixels = need(b, stride * c->output_height);
	while (c->output_scanline < c->output_height) {
		JSAMPROW rows[16];
		int n = 0;
		for (; n < 16 && c->output_scanline + n < c->output_height; n++)
			rows[n] = pixels + (c->output_scanline + n) * stride;
		jpeg_read_scanlines(c, rows, n);
	}
	jpeg_finish_decompress(c);
}

#ifdef HAVE_SPNG
static void decode_png(struct file *f, struct buffer *b) {
	spng_ctx *c = spng_ctx_new(0); /* a context cannot be reused */
	size_t size;
	int e = spng_set_png_buffer(c, f->data, f->size);
	if (!e) e = spng_decoded_image_size(c, SPNG_FMT_RGB8, &size);
	if (!e) e = spng_decode_image(c, need(b, size), size, SPNG_FMT_RGB8, 0);
	if (e) fail(f->path, spng_strerror(e));
	spng_ctx_free(c);
}
#else
static void decode_png(struct file *f, struct buffer *b) {
	png_image image;
	memset(&image, 0, sizeof image);
	image.version = PNG_IMAGE_VERSION;
	if (!png_image_begin_read_from_memory(&image, f->data, f->size)) fail(f->path, image.message);
	image.format = PNG_FORMAT_RGB;
	if (!png_image_finish_read(&image, NULL, need(b, PNG_IMAGE_SIZE(image)), 0, NULL)) fail(f->path, image.message);
}
#endif

static int is_png(const struct file *f) { return f->size > 8 && !memcmp(f->data, "\x89PNG\r\n\x1a\n", 8); }

static void *run(void *unused) {
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr err;
	struct buffer b = {NULL, 0};
	c.err = jpeg_std_error(&err);
	jpeg_create_decompress(&c);
	for (long i; (i = atomic_fetch_add(&next, 1)) < total;) {
		struct file *f = &files[i % count];
		if (is_png(f)) decode_png(f, &b); else decode_jpeg(&c, f, &b);
	}
	jpeg_destroy_decompress(&c);
	free(b.data);
	return unused;
}

static int libraries(void) {
#ifdef LIBJPEG_TURBO_VERSION
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
	printf("libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION));
#else
	printf("a libjpeg that is not libjpeg-turbo");
#endif
#ifdef HAVE_SPNG
	printf(", libspng %s\n", spng_version_string());
#else
	printf(", libpng %s, as libspng is missing\n", PNG_LIBPNG_VER_STRING);
#endif
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 2 && !strcmp(argv[1], "-libraries")) return libraries();
	if (argc < 4) { fprintf(stderr, "usage: ceiling THREADS PASSES FILE...\n"); return 2; }
	int threads = atoi(argv[1]);
	count = argc - 3;
	total = count * atol(argv[2]);
	files = calloc((size_t)count, sizeof *files);
	for (long i = 0; i < count; i++)
		load(&files[i], argv[3 + i]);
	pthread_t *t = calloc((size_t)threads, sizeof *t);
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, run, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%ld %.6f\n", total, (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
	return 0;
}
