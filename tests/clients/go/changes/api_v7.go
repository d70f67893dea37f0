//go:build v7

package main

import "github.com/go-redis/redis/v7"

type (
	clusterClient  = redis.ClusterClient
	clusterOptions = redis.ClusterOptions
	pipeliner      = redis.Pipeliner
	stringCmd      = redis.StringCmd
	intCmd         = redis.IntCmd
)

var newClusterClient = redis.NewClusterClient
