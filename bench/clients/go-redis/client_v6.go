//go:build v6

package main

import "github.com/go-redis/redis"

// open returns what gets one key.
func open(address string) func(key string) error {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	return func(key string) error { return client.Get(key).Err() }
}
