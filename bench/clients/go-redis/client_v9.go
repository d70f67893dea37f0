//go:build v9

package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// open returns what gets one key.
func open(address string) func(key string) error {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	return func(key string) error { return client.Get(context.Background(), key).Err() }
}
