// Many goroutines that GET through one cluster client of go-redis: build with -tags v6, v7, v8 or v9.
// Prints one line: GETs that succeeded, GETs that failed, seconds, and the first error.
package main

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:6379", "of any node")
	goroutines := flag.Int("goroutines", 100, "that GET at the same time")
	keys := flag.Int("keys", 10_000, "key:0, key:1, ... that are asked for")
	span := flag.Duration("span", 5*time.Second, "how long to go on")
	flag.Parse()

	get := open(*address)
	var succeeded, failed atomic.Int64
	var firstError atomic.Pointer[string]
	var all sync.WaitGroup
	started := time.Now()
	until := started.Add(*span)
	for g := range *goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := g; time.Now().Before(until); n += 7919 {
				if err := get(fmt.Sprintf("key:%d", n%*keys)); err == nil {
					succeeded.Add(1)
				} else {
					failed.Add(1)
					text := err.Error()
					firstError.CompareAndSwap(nil, &text)
				}
			}
		}()
	}
	all.Wait()
	first := ""
	if text := firstError.Load(); text != nil {
		first = *text
	}
	fmt.Printf("%d %d %.3f %s\n", succeeded.Load(), failed.Load(), time.Since(started).Seconds(), first)
}
