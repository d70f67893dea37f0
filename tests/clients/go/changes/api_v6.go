//go:build v6

package main

import "github.com/go-redis/redis"

type (
	clusterClient  = redis.ClusterClient
	clusterOptions = redis.ClusterOptions
	pipeliner      = redis.Pipeliner
	stringCmd      = redis.StringCmd
	intCmd         = redis.IntCmd
)

var newClusterClient = redis.NewClusterClient
