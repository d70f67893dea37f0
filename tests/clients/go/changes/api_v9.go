//go:build v9

package main

import "github.com/redis/go-redis/v9"

type (
	clusterClient  = redis.ClusterClient
	clusterOptions = redis.ClusterOptions
	pipeliner      = redis.Pipeliner
	stringCmd      = redis.StringCmd
	intCmd         = redis.IntCmd
)

var newClusterClient = redis.NewClusterClient
