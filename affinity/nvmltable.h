/*
 * Opens the driver's library, for good, and has NVML's functions jump there; 0 where there
 * is none. Not for two threads at once.
 */
int batchfs_nvml_open(const char *path);
