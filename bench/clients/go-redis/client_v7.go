//go:build v7

package main

import "github.com/go-redis/redis/v7"

// open returns what gets one key.
func open(address string) func(key string) error {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	return func(key string) error { return client.Get(key).Err() }
}
