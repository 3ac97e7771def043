package gen

import "math/bits"

// progressive codes the picture in the scans that most encoders use: all DC values first, then
// the coefficients band by band, from the most significant bits down.
func (e *jpegCoder) progressive() {
	all := make([]int, len(e.comps))
	for i := range all {
		all[i] = i
	}
	e.dcScan(all, 0, 1)
	for i := range e.comps {
		if i == 0 {
			e.acScan(i, 1, 5, 0, 2)
			e.acScan(i, 6, 63, 0, 2)
			e.acScan(i, 1, 63, 2, 1)
		} else {
			e.acScan(i, 1, 63, 0, 1)
		}
	}
	e.dcScan(all, 1, 0)
	for i := range e.comps {
		e.acScan(i, 1, 63, 1, 0)
	}
}

// fitted runs a scan twice: once to count its symbols and write tables that fit them, once to
// code it.
func (e *jpegCoder) fitted(kind int, header func(), visit func(c *jpegComponent, block int)) {
	counts := new([2][2][256]int)
	e.counts = counts
	e.scan(visit)
	e.counts = nil
	for t := range counts {
		if counts[t][kind] != [256]int{} {
			e.codes[t][kind] = fittedCode(&counts[t][kind])
			e.putHuffman(t, kind)
		}
	}
	header()
	e.scan(visit)
}

func (e *jpegCoder) dcScan(comps []int, high, low int) {
	e.inScan = append(e.inScan[:0], comps...)
	header := func() { e.putScanHeader(0, 0, high, low) }
	if high > 0 { // one plain bit per block, no symbols
		header()
		e.scan(func(c *jpegComponent, block int) { e.put(uint32(c.coef[block][0]>>low)&1, 1) })
		return
	}
	e.fitted(0, header, func(c *jpegComponent, block int) {
		dc := int(c.coef[block][0] >> low)
		extra, n := magnitude(int32(dc - c.dcPredicts))
		c.dcPredicts = dc
		e.symbol(c.table, 0, uint8(n), extra, n)
	})
}

func (e *jpegCoder) acScan(comp, from, to, high, low int) {
	e.inScan = append(e.inScan[:0], comp)
	e.eobTable = e.comps[comp].table
	header := func() { e.putScanHeader(from, to, high, low) }
	e.fitted(1, header, func(c *jpegComponent, block int) {
		if high == 0 {
			e.acFirst(c, block, from, to, low)
		} else {
			e.acRefine(c, block, from, to, low)
		}
	})
}

// acFirst codes the upper bits of a band.
func (e *jpegCoder) acFirst(c *jpegComponent, block, from, to, low int) {
	coef, run := &c.coef[block], 0
	for k := from; k <= to; k++ {
		v := shiftTowardsZero(coef[k], low)
		if v == 0 {
			run++
			continue
		}
		e.endRun()
		for ; run > 15; run -= 16 {
			e.symbol(c.table, 1, symbolZRL, 0, 0)
		}
		extra, n := magnitude(v)
		e.symbol(c.table, 1, uint8(run)<<4|uint8(n), extra, n)
		run = 0
	}
	if run > 0 {
		e.addToRun()
	}
}

// acRefine codes one more bit of a band: a correction bit for each coefficient that was not 0
// before, and, as in acFirst, the coefficients that become nonzero now.
func (e *jpegCoder) acRefine(c *jpegComponent, block, from, to, low int) {
	coef := &c.coef[block]
	lastNew := 0 // after it there are only corrections
	for k := from; k <= to; k++ {
		if v := shiftTowardsZero(coef[k], low); v == 1 || v == -1 {
			lastNew = k
		}
	}
	run := 0
	var corrections []byte
	for k := from; k <= to; k++ {
		v := shiftTowardsZero(coef[k], low)
		if v == 0 {
			run++
			continue
		}
		for ; run > 15 && k <= lastNew; run -= 16 {
			e.endRun()
			e.symbol(c.table, 1, symbolZRL, 0, 0)
			e.putBits(corrections)
			corrections = corrections[:0]
		}
		if v != 1 && v != -1 {
			corrections = append(corrections, byte(abs(v)&1))
			continue
		}
		e.endRun()
		e.symbol(c.table, 1, uint8(run)<<4|1, uint32(v+1)>>1, 1)
		e.putBits(corrections)
		corrections, run = corrections[:0], 0
	}
	if run > 0 || len(corrections) > 0 {
		e.pending = append(e.pending, corrections...)
		e.addToRun()
	}
}

// addToRun counts one more block that ends early. The run's corrections must not grow without
// bound, nor its length beyond what a symbol can hold.
func (e *jpegCoder) addToRun() {
	e.eobRun++
	if e.eobRun == 0x7FFF || len(e.pending) > 900 {
		e.endRun()
	}
}

// endRun codes the number of blocks that ended early, and their correction bits.
func (e *jpegCoder) endRun() {
	if e.eobRun > 0 {
		n := uint(bits.Len(uint(e.eobRun))) - 1
		e.symbol(e.eobTable, 1, uint8(n)<<4, uint32(e.eobRun)&(1<<n-1), n)
		e.eobRun = 0
	}
	e.putBits(e.pending)
	e.pending = e.pending[:0]
}

func (e *jpegCoder) putBits(values []byte) {
	if e.counts != nil {
		return
	}
	for _, v := range values {
		e.put(uint32(v), 1)
	}
}

func shiftTowardsZero(v int16, n int) int32 {
	if v < 0 {
		return -(-int32(v) >> n)
	}
	return int32(v) >> n
}

func abs(v int32) int32 { return max(v, -v) }
