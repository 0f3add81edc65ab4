// Package stats computes what runs are compared by, without floating point where a result is signed or has to be the
// same on every machine: the Wilson interval of a rate, the exact McNemar test, and the interval of the paired
// bootstrap over all resamples, which is a convolution and draws nothing (TestRate, TestPairedStatistics). Rates and
// probabilities are in parts per million, money is in micro-USD.
package stats

// Share returns of ÷ all, by one division of 32-bit floats; 0 where all is 0.
func Share(of, all int) float32 {
	if all == 0 {
		return 0
	}
	return float32(of) / float32(all)
}
