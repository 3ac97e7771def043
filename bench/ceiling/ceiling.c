/* The ceiling that batchfs is measured against: libjpeg-turbo decoding the same
 * files in full, into one reused buffer a thread, on all cores, and nothing else.
 *
 * usage: ceiling THREADS PASSES FILE...    prints images and seconds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jpeglib.h>

struct file { unsigned char *data; unsigned long size; };

static struct file *files;
static long count, total;
static atomic_long next;

static void load(struct file *f, const char *path) {
	FILE *in = fopen(path, "rb");
	if (!in) { perror(path); exit(1); }
	fseek(in, 0, SEEK_END);
	f->size = (unsigned long)ftell(in);
	rewind(in);
	f->data = malloc(f->size);
	if (fread(f->data, 1, f->size, in) != f->size) { perror(path); exit(1); }
	fclose(in);
}

static void decode(struct jpeg_decompress_struct *c, struct file *f, unsigned char **buf, size_t *cap) {
	jpeg_mem_src(c, f->data, f->size);
	jpeg_read_header(c, TRUE);
	c->out_color_space = JCS_RGB;
	jpeg_start_decompress(c);
	size_t stride = (size_t)c->output_width * 3, need = stride * c->output_height;
	if (need > *cap) { free(*buf); *buf = malloc(need); *cap = need; }
	while (c->output_scanline < c->output_height) {
		JSAMPROW rows[16];
		int n = 0;
		for (; n < 16 && c->output_scanline + n < c->output_height; n++)
			rows[n] = *buf + (c->output_scanline + n) * stride;
		jpeg_read_scanlines(c, rows, n);
	}
	jpeg_finish_decompress(c);
}

static void *run(void *unused) {
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr err;
	unsigned char *buf = NULL;
	size_t cap = 0;
	c.err = jpeg_std_error(&err);
	jpeg_create_decompress(&c);
	for (long i; (i = atomic_fetch_add(&next, 1)) < total;)
		decode(&c, &files[i % count], &buf, &cap);
	jpeg_destroy_decompress(&c);
	free(buf);
	return unused;
}

int main(int argc, char **argv) {
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
