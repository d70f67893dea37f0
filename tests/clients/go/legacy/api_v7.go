//go:build v7

// What differs between the versions of this generation.

package main

import (
	"errors"

	"github.com/go-redis/redis/v7"
)

const module = "github.com/go-redis/redis/v7"

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

func isServerError(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func zAdd(c Cmdable, key string, members ...Z) *IntCmd {
	pointers := make([]*Z, len(members))
	for i := range members {
		pointers[i] = &members[i]
	}
	return c.ZAdd(key, pointers...)
}

func zAddNX(c Cmdable, key string, member Z) *IntCmd { return c.ZAddNX(key, &member) }

func zUnionStore(c Cmdable, to string, keys []string, weights []float64, aggregate string) *IntCmd {
	return c.ZUnionStore(to, &redis.ZStore{Keys: keys, Weights: weights, Aggregate: aggregate})
}

func byRange(least, most string, offset, count int64) *redis.ZRangeBy {
	return &redis.ZRangeBy{Min: least, Max: most, Offset: offset, Count: count}
}

// hSet reports whether the field is new.
func hSet(c Cmdable, key, field string, value any) (bool, error) {
	added, err := c.HSet(key, field, value).Result()
	return added == 1, err
}
