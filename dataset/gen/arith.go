package gen

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func clamp(v, low, high int) int { return min(max(v, low), high) }

// clampByte is clamp to 0..255 without branches that noise would mispredict.
func clampByte(v int) byte { return byte(min(max(v, 0), 255)) }
