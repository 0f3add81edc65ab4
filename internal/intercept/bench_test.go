package intercept

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// twoSyncs returns how long it takes at the median to append two lines of 600 bytes to a file and to sync each, a millisecond apart,
// in milliseconds: what recording an exchange takes at least.
func twoSyncs(b *testing.B, n int) float64 {
	file, err := os.Create(filepath.Join(b.TempDir(), "lines"))
	must(b, err)
	defer file.Close()
	var times []time.Duration
	for range n {
		var both time.Duration
		for range 2 {
			time.Sleep(time.Millisecond)
			began := time.Now()
			_, err := file.Write(make([]byte, 600))
			must(b, err)
			must(b, file.Sync())
			both += time.Since(began)
		}
		times = append(times, both)
	}
	return median(times)
}

// onDisk makes the journal of a rig a file whose lines are synced.
func onDisk(b *testing.B, r *rig) {
	file, err := os.Create(filepath.Join(b.TempDir(), "events.jsonl"))
	must(b, err)
	b.Cleanup(func() { file.Close() })
	began := time.Now()
	log, err := trajectory.NewLog(file, trajectory.End{Head: headOfPlan}, trajectory.LogConfig{RunID: runID, Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader})
	must(b, err)
	r.rec.Log = log
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}

// BenchmarkAdded reports what recording adds to an exchange at the median, with TLS and a journal on disk: of a page of 20 kB,
// alone and with 64 exchanges at once. Beside it is what two bare syncs take.
func BenchmarkAdded(b *testing.B) {
	page := strings.Repeat("<p>The steamer left the harbour at dawn, says the log of the pilot, and came back in the night of the storm.</p>\n", 180)
	address := serve(b, "https", "almanac.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
	for _, parallel := range []int{1, 64} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			r := newRig(b, map[string]string{"almanac.example:443": address}, nil)
			r.proxy.bounds.exchanges = 1 << 40
			onDisk(b, r)
			direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(servers()), ServerName: "almanac.example"}, MaxIdleConnsPerHost: 64}}
			defer direct.CloseIdleConnections()
			measure := func(c *http.Client, url string) (times []time.Duration) {
				var mu sync.Mutex
				var all sync.WaitGroup
				for range parallel {
					all.Go(func() {
						for i := 0; i < b.N+5; i++ {
							began := time.Now()
							q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
							must(b, err)
							res, err := c.Do(q)
							if err != nil {
								b.Error(err)
								return
							}
							_, err = io.Copy(io.Discard, res.Body)
							res.Body.Close()
							if err != nil || res.StatusCode != 200 {
								b.Errorf("status %d, %v", res.StatusCode, err)
							}
							if i >= 5 { // connections are there
								mu.Lock()
								times = append(times, time.Since(began))
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
				return times
			}
			through, without := measure(r.client(false), "https://almanac.example/"), measure(direct, "https://"+address+"/")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(through)-median(without), "ms-added")
			b.ReportMetric(median(through), "ms-through")
			b.ReportMetric(twoSyncs(b, b.N+5), "ms-two-syncs")
		})
	}
}
