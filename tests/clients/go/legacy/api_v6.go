//go:build v6

// What differs between the versions of this generation.

package main

import (
	"fmt"

	"github.com/go-redis/redis"
)

const module = "github.com/go-redis/redis"

type (
	Client         = redis.Client
	ClusterClient  = redis.ClusterClient
	ClusterOptions = redis.ClusterOptions
	Cmdable        = redis.Cmdable
	IntCmd         = redis.IntCmd
	Options        = redis.Options
	Pipeliner      = redis.Pipeliner
	PoolStats      = redis.PoolStats
	StatusCmd      = redis.StatusCmd
	StringCmd      = redis.StringCmd
	Z              = redis.Z
)

const Nil = redis.Nil

var (
	NewClient        = redis.NewClient
	NewClusterClient = redis.NewClusterClient
)

// The library keeps its error type to itself: only its printed name can be told.
func isServerError(err error) bool { return fmt.Sprintf("%T", err) == "proto.RedisError" }

func zAdd(c Cmdable, key string, members ...Z) *IntCmd { return c.ZAdd(key, members...) }

func zAddNX(c Cmdable, key string, member Z) *IntCmd { return c.ZAddNX(key, member) }

func zUnionStore(c Cmdable, to string, keys []string, weights []float64, aggregate string) *IntCmd {
	return c.ZUnionStore(to, redis.ZStore{Weights: weights, Aggregate: aggregate}, keys...)
}

func byRange(least, most string, offset, count int64) redis.ZRangeBy {
	return redis.ZRangeBy{Min: least, Max: most, Offset: offset, Count: count}
}

// hSet reports whether the field is new.
func hSet(c Cmdable, key, field string, value any) (bool, error) {
	return c.HSet(key, field, value).Result()
}
