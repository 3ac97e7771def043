//go:build cgo && linux

#ifndef STARVE_H
#define STARVE_H

int starve_available(void);
void starve_begin(long nth, int rest);
long starve_end(void);

#endif
