// The generation of go-redis without contexts, doing a day's work: build with -tags v6 or -tags v7.
// Flushes the database it is given.
package main

import (
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"halcyon.test/clients/check"
)

const goroutines = 20

func main() {
	s := check.New(module)
	s.IsServerError = isServerError
	var c Cmdable
	var stats func() *PoolStats
	if s.Cluster {
		client := NewClusterClient(&ClusterOptions{Addrs: []string{s.Addr()}, TLSConfig: s.TLS})
		c, stats = client, client.PoolStats
	} else {
		client := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS})
		c, stats = client, client.PoolStats
	}
	s.Group("connect", func() { connect(s, c) })
	s.Group("strings", func() { stringCommands(s, c) })
	s.Group("keys", func() { keys(s, c) })
	s.Group("lists", func() { lists(s, c) })
	s.Group("hashes", func() { hashes(s, c) })
	s.Group("sets", func() { sets(s, c) })
	s.Group("sorted_sets", func() { sortedSets(s, c) })
	s.Group("pipelines", func() { pipelines(s, c) })
	s.Group("errors", func() { errorReplies(s, c) })
	s.Group("pool", func() { pool(s, c, stats) })
	s.Group("concurrency", func() { concurrency(s, c) })
	if client, ok := c.(*ClusterClient); ok {
		s.Group("topology", func() { topology(s, client) })
	}
	s.Group("server", func() { server(s, c) })
	s.Finish()
}

func sorted(values []string, err error) ([]string, error) {
	sort.Strings(values)
	return values, err
}

func connect(s *check.Suite, c Cmdable) {
	s.Is("PING", "PONG")(c.Ping().Result())
	s.Is("ECHO", "hällo")(c.Echo("hällo").Result())
	s.Is("FLUSHDB", "OK")(c.FlushDB().Result())
	s.Is("DBSIZE when empty", int64(0))(c.DBSize().Result())
}

func stringCommands(s *check.Suite, c Cmdable) {
	s.Misses("GET of nothing", Nil)(c.Get("s:none").Result())
	s.Is("SET", "OK")(c.Set("s:a", "one", 0).Result())
	s.Is("GET", "one")(c.Get("s:a").Result())
	s.Is("SETNX on a key", false)(c.SetNX("s:a", "two", 0).Result())
	s.Is("SET XX EX", true)(c.SetXX("s:a", "three", time.Hour).Result())
	s.Within("TTL", 50*time.Minute, time.Hour)(c.TTL("s:a").Result())
	s.Within("PTTL", 50*time.Minute, time.Hour)(c.PTTL("s:a").Result())
	s.Is("PERSIST", true)(c.Persist("s:a").Result())
	s.Is("PERSIST again", false)(c.Persist("s:a").Result())
	s.Is("EXPIRE", true)(c.Expire("s:a", 1000*time.Second).Result())
	s.Within("TTL after EXPIRE", 900*time.Second, 1000*time.Second)(c.TTL("s:a").Result())
	s.Is("GETSET", "three")(c.GetSet("s:a", "four").Result())
	s.Is("APPEND", int64(9))(c.Append("s:a", "+five").Result())
	s.Is("STRLEN", int64(9))(c.StrLen("s:a").Result())
	s.Is("GETRANGE", "five")(c.GetRange("s:a", -4, -1).Result())
	s.Is("SETRANGE", int64(9))(c.SetRange("s:a", 4, "-").Result())
	s.Is("GET after SETRANGE", "four-five")(c.Get("s:a").Result())
	s.Is("MSET", "OK")(c.MSet("{s}1", "v1", "{s}2", "", "{s}3", "v3").Result())
	s.Is("MSETNX", false)(c.MSetNX("{s}1", "x", "{s}4", "x").Result())
	s.Is("MGET", []any{"v1", "", nil, "v3"})(c.MGet("{s}1", "{s}2", "{s}4", "{s}3").Result())
	s.Is("INCR", int64(1))(c.Incr("s:n").Result())
	s.Is("INCRBY", int64(42))(c.IncrBy("s:n", 41).Result())
	s.Is("DECRBY", int64(-8))(c.DecrBy("s:n", 50).Result())
	s.Is("INCRBYFLOAT", 10.5)(c.IncrByFloat("s:f", 10.5).Result())
	s.Is("INCRBYFLOAT down", 10.25)(c.IncrByFloat("s:f", -0.25).Result())
	s.Is("SET EX", "OK")(c.Set("s:ex", "x", 500*time.Second).Result())
	s.Is("EXPIREAT in the past", true)(c.ExpireAt("s:ex", time.Unix(1, 0)).Result())
	s.Misses("GET after EXPIREAT in the past", Nil)(c.Get("s:ex").Result())
	var binary []byte
	for i := 0; i < 256; i++ {
		binary = append(binary, byte(i))
	}
	binary = append(binary, "\r\n$5\r\n\x00"...)
	s.Is("SET binary", "OK")(c.Set("s:\x00\xff\r\n", binary, 0).Result())
	s.Is("GET binary", binary)(c.Get("s:\x00\xff\r\n").Bytes())
	s.Is("SET unicode", "OK")(c.Set("s:ключ", "値 🚀 ñ", 0).Result())
	s.Is("GET unicode", "値 🚀 ñ")(c.Get("s:ключ").Result())
	megabyte := make([]byte, 1<<20)
	for i := range megabyte {
		megabyte[i] = byte(i*31 + i/256)
	}
	s.Is("SET 1 MB", "OK")(c.Set("s:big", megabyte, 0).Result())
	s.Is("GET 1 MB", megabyte)(c.Get("s:big").Bytes())
	s.Is("STRLEN 1 MB", int64(1<<20))(c.StrLen("s:big").Result())
}

func keys(s *check.Suite, c Cmdable) {
	c.FlushDB()
	s.Is("MSET for keys", "OK")(c.MSet("{k}a", 1, "{k}b", 2).Result())
	s.Is("EXISTS", int64(3))(c.Exists("{k}a", "{k}b", "{k}a", "{k}c").Result())
	s.Is("TYPE string", "string")(c.Type("{k}a").Result())
	s.Is("TYPE of nothing", "none")(c.Type("{k}c").Result())
	s.Is("RENAME", "OK")(c.Rename("{k}a", "{k}c").Result())
	s.Is("GET renamed", "1")(c.Get("{k}c").Result())
	s.Is("RENAMENX onto a key", false)(c.RenameNX("{k}c", "{k}b").Result())
	s.Fails("RENAME of nothing", "no such key")(c.Rename("{k}a", "{k}d").Result())
	s.Is("DEL", int64(2))(c.Del("{k}b", "{k}c", "{k}nope").Result())
	s.Is("UNLINK of nothing", int64(0))(c.Unlink("{k}b").Result())
	for _, encoded := range [][2]string{{"12345", "int"}, {"short", "embstr"}, {strings.Repeat("x", 100), "raw"}} {
		c.Set("k:enc", encoded[0], 0)
		s.Is("OBJECT ENCODING "+encoded[1], encoded[1])(c.ObjectEncoding("k:enc").Result())
	}
	c.FlushDB()
	want := map[string]bool{}
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("scan:%d", i)
		want[key] = true
		c.Set(key, "v", 0)
	}
	c.SAdd("other", "x")
	found, cursor := map[string]bool{}, uint64(0)
	for {
		page, next, err := c.Scan(cursor, "scan:*", 100).Result()
		for _, key := range page {
			found[key] = true
		}
		if cursor = next; cursor == 0 || err != nil {
			break
		}
	}
	s.True("SCAN finds each key", reflect.DeepEqual(found, want))
	s.Is("KEYS", 11)(count(c.Keys("scan:99*").Result()))
	s.Is("DBSIZE", int64(1001))(c.DBSize().Result())
}

func count(values []string, err error) (int, error) { return len(values), err }

func lists(s *check.Suite, c Cmdable) {
	s.Is("RPUSH", int64(4))(c.RPush("{l}a", "a", "b", "c", "d").Result())
	s.Is("LPUSH", int64(6))(c.LPush("{l}a", "y", "z").Result())
	s.Is("LRANGE", []string{"z", "y", "a", "b", "c", "d"})(c.LRange("{l}a", 0, -1).Result())
	s.Is("LLEN", int64(6))(c.LLen("{l}a").Result())
	s.Is("LINDEX", "c")(c.LIndex("{l}a", -2).Result())
	s.Is("LSET", "OK")(c.LSet("{l}a", 1, "Y").Result())
	s.Is("LINSERT", int64(7))(c.LInsertBefore("{l}a", "a", "new").Result())
	s.Is("LREM", int64(1))(c.LRem("{l}a", 1, "new").Result())
	s.Is("LPOP", "z")(c.LPop("{l}a").Result())
	s.Is("RPOP", "d")(c.RPop("{l}a").Result())
	s.Is("RPOPLPUSH", "c")(c.RPopLPush("{l}a", "{l}b").Result())
	s.Is("LRANGE left", []string{"Y", "a", "b"})(c.LRange("{l}a", 0, -1).Result())
	s.Misses("LPOP of nothing", Nil)(c.LPop("l:none").Result())
	var values []any
	var want []string
	for i := 0; i < 1000; i++ {
		values = append(values, i)
		want = append(want, strconv.Itoa(i))
	}
	s.Is("RPUSH 1,000", int64(1000))(c.RPush("l:long", values...).Result())
	s.Is("LTRIM", "OK")(c.LTrim("l:long", 100, -101).Result())
	s.Is("LRANGE long", want[100:900])(c.LRange("l:long", 0, -1).Result())
}

func hashes(s *check.Suite, c Cmdable) {
	fields := map[string]any{}
	for i := 0; i < 1000; i++ {
		fields[fmt.Sprintf("field:%d", i)] = fmt.Sprintf("value %d", i)
	}
	want := map[string]string{}
	for field, value := range fields {
		want[field] = value.(string)
	}
	s.True("HMSET 1,000", c.HMSet("h:big", fields).Err() == nil)
	s.Is("HGETALL 1,000", want)(c.HGetAll("h:big").Result())
	found, field := map[string]string{}, ""
	scan := c.HScan("h:big", 0, "", 50).Iterator()
	for i := 0; scan.Next(); i++ {
		if i%2 == 0 {
			field = scan.Val()
		} else {
			found[field] = scan.Val()
		}
	}
	s.Is("HSCAN", want)(found, scan.Err())
	s.Is("HSET", true)(hSet(c, "h", "a", 1))
	s.Is("HSET again", false)(hSet(c, "h", "a", 2))
	s.True("HMSET", c.HMSet("h", map[string]any{"b": "two", "c": ""}).Err() == nil)
	s.Is("HSETNX", false)(c.HSetNX("h", "a", 9).Result())
	s.Is("HGET", "2")(c.HGet("h", "a").Result())
	s.Misses("HGET of nothing", Nil)(c.HGet("h", "x").Result())
	s.Is("HGETALL", map[string]string{"a": "2", "b": "two", "c": ""})(c.HGetAll("h").Result())
	s.Is("HGETALL of nothing", map[string]string{})(c.HGetAll("h:none").Result())
	s.Is("HMGET", []any{"", nil, "two"})(c.HMGet("h", "c", "x", "b").Result())
	s.Is("HINCRBY", int64(42))(c.HIncrBy("h", "a", 40).Result())
	s.Is("HINCRBYFLOAT", 1.5)(c.HIncrByFloat("h", "f", 1.5).Result())
	s.Is("HLEN", int64(4))(c.HLen("h").Result())
	s.Is("HEXISTS", true)(c.HExists("h", "f").Result())
	s.Is("HKEYS", []string{"a", "b", "c", "f"})(sorted(c.HKeys("h").Result()))
	s.Is("HVALS", []string{"", "1.5", "42", "two"})(sorted(c.HVals("h").Result()))
	s.Is("HDEL", int64(2))(c.HDel("h", "a", "f", "nope").Result())
	s.Is("OBJECT ENCODING hash", "hashtable")(c.ObjectEncoding("h:big").Result())
}

func sets(s *check.Suite, c Cmdable) {
	s.Is("SADD", int64(4))(c.SAdd("{t}a", "a", "b", "c", "d", "a").Result())
	s.Is("SADD again", int64(3))(c.SAdd("{t}b", "c", "d", "e").Result())
	s.Is("SMEMBERS", []string{"a", "b", "c", "d"})(sorted(c.SMembers("{t}a").Result()))
	s.Is("SCARD", int64(4))(c.SCard("{t}a").Result())
	s.Is("SISMEMBER", true)(c.SIsMember("{t}a", "a").Result())
	s.Is("SISMEMBER of nothing", false)(c.SIsMember("{t}a", "z").Result())
	s.Is("SINTER", []string{"c", "d"})(sorted(c.SInter("{t}a", "{t}b").Result()))
	s.Is("SUNION", []string{"a", "b", "c", "d", "e"})(sorted(c.SUnion("{t}a", "{t}b").Result()))
	s.Is("SDIFF", []string{"a", "b"})(sorted(c.SDiff("{t}a", "{t}b").Result()))
	s.Is("SINTERSTORE", int64(2))(c.SInterStore("{t}i", "{t}a", "{t}b").Result())
	s.Is("SUNIONSTORE", int64(5))(c.SUnionStore("{t}u", "{t}a", "{t}b").Result())
	s.Is("SDIFFSTORE", int64(2))(c.SDiffStore("{t}d", "{t}a", "{t}b").Result())
	s.Is("SMEMBERS stored", []string{"a", "b"})(sorted(c.SMembers("{t}d").Result()))
	s.Is("SMOVE", true)(c.SMove("{t}a", "{t}b", "a").Result())
	s.Is("SREM", int64(1))(c.SRem("{t}b", "a", "zzz").Result())
	var members []any
	all := map[string]bool{}
	for i := 0; i < 1000; i++ {
		member := fmt.Sprintf("m%d", i)
		members = append(members, member)
		all[member] = true
	}
	s.Is("SADD 1,000", int64(1000))(c.SAdd("t:big", members...).Result())
	found := map[string]bool{}
	scan := c.SScan("t:big", 0, "", 50).Iterator()
	for scan.Next() {
		found[scan.Val()] = true
	}
	s.Is("SSCAN", all)(found, scan.Err())
	some, err := c.SRandMemberN("t:big", 20).Result()
	s.Is("SRANDMEMBER 20", 20)(distinct(some, all), err)
	same, err := c.SRandMemberN("t:big", -20).Result()
	s.Is("SRANDMEMBER -20", 20)(len(same), err)
	taken, err := c.SPopN("t:big", 300).Result()
	s.Is("SPOP 300", 300)(distinct(taken, all), err)
	rest, err := c.SMembers("t:big").Result()
	for _, member := range taken {
		delete(all, member)
	}
	s.Is("SPOP leaves the rest", 700)(distinct(rest, all), err)
	one, err := c.SPop("t:big").Result()
	s.Is("SPOP", true)(all[one], err)
	s.Is("SADD integers", int64(3))(c.SAdd("t:int", 1, 2, 3).Result())
	s.Is("OBJECT ENCODING intset", "intset")(c.ObjectEncoding("t:int").Result())
}

// distinct counts the different values that are in all.
func distinct(values []string, all map[string]bool) int {
	seen := map[string]bool{}
	for _, value := range values {
		if all[value] {
			seen[value] = true
		}
	}
	return len(seen)
}

func sortedSets(s *check.Suite, c Cmdable) {
	s.Is("ZADD", int64(4))(zAdd(c, "{z}a", Z{Score: 1, Member: "a"}, Z{Score: 2.5, Member: "b"}, Z{Score: 3, Member: "c"}, Z{Score: math.Inf(1), Member: "d"}).Result())
	s.Is("ZADD NX on a member", int64(0))(zAddNX(c, "{z}a", Z{Score: 9, Member: "a"}).Result())
	s.Is("ZADD NX", int64(1))(zAddNX(c, "{z}a", Z{Score: -1, Member: "e"}).Result())
	s.Is("ZSCORE", 2.5)(c.ZScore("{z}a", "b").Result())
	s.Is("ZSCORE of inf", math.Inf(1))(c.ZScore("{z}a", "d").Result())
	s.Misses("ZSCORE of nothing", Nil)(c.ZScore("{z}a", "nope").Result())
	s.Is("ZINCRBY", 4.25)(c.ZIncrBy("{z}a", 1.25, "c").Result())
	s.Is("ZRANGE", []string{"e", "a", "b", "c", "d"})(c.ZRange("{z}a", 0, -1).Result())
	s.Is("ZRANGE WITHSCORES", []Z{{Score: -1, Member: "e"}, {Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})(c.ZRangeWithScores("{z}a", 0, 2).Result())
	s.Is("ZREVRANGE", []string{"d", "c"})(c.ZRevRange("{z}a", 0, 1).Result())
	s.Is("ZRANGEBYSCORE", []string{"b", "c", "d"})(c.ZRangeByScore("{z}a", byRange("(1", "+inf", 0, 0)).Result())
	s.Is("ZRANGEBYSCORE LIMIT WITHSCORES", []Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})(c.ZRangeByScoreWithScores("{z}a", byRange("-inf", "5", 1, 2)).Result())
	s.Is("ZCOUNT", int64(2))(c.ZCount("{z}a", "1", "(4.25").Result())
	s.Is("ZRANK", int64(1))(c.ZRank("{z}a", "a").Result())
	s.Is("ZREVRANK", int64(3))(c.ZRevRank("{z}a", "a").Result())
	s.Misses("ZRANK of nothing", Nil)(c.ZRank("{z}a", "nope").Result())
	s.Is("ZCARD", int64(5))(c.ZCard("{z}a").Result())
	for _, member := range "abcdef" {
		zAdd(c, "z:lex", Z{Member: string(member)})
	}
	s.Is("ZRANGEBYLEX", []string{"c", "d", "e"})(c.ZRangeByLex("z:lex", byRange("(b", "[e", 0, 0)).Result())
	s.Is("ZREVRANGEBYLEX", []string{"f", "e"})(c.ZRevRangeByLex("z:lex", byRange("[e", "+", 0, 0)).Result())
	s.Is("ZLEXCOUNT", int64(2))(c.ZLexCount("z:lex", "-", "(c").Result())
	s.Is("ZREMRANGEBYLEX", int64(2))(c.ZRemRangeByLex("z:lex", "[a", "[b").Result())
	zAdd(c, "{z}b", Z{Score: 10, Member: "b"}, Z{Score: 20, Member: "q"})
	s.Is("ZUNIONSTORE", int64(6))(zUnionStore(c, "{z}u", []string{"{z}b", "{z}a"}, []float64{2, 1}, "MAX").Result())
	s.Is("ZUNIONSTORE scores", []Z{{Score: 20, Member: "b"}, {Score: 40, Member: "q"}, {Score: math.Inf(1), Member: "d"}})(c.ZRangeWithScores("{z}u", 3, -1).Result())
	s.Is("ZPOPMIN", []Z{{Score: -1, Member: "e"}})(c.ZPopMin("{z}a").Result())
	s.Is("ZPOPMAX 2", []Z{{Score: math.Inf(1), Member: "d"}, {Score: 4.25, Member: "c"}})(c.ZPopMax("{z}a", 2).Result())
	s.Is("ZREM", int64(1))(c.ZRem("{z}a", "a", "nope").Result())
	s.Is("ZREMRANGEBYSCORE", int64(1))(c.ZRemRangeByScore("{z}a", "-inf", "+inf").Result())
	s.Is("EXISTS once empty", int64(0))(c.Exists("{z}a").Result())
	var members []Z
	want := map[string]string{}
	for i := 0; i < 1000; i++ {
		members = append(members, Z{Score: float64(i) / 4, Member: fmt.Sprintf("m%d", i)})
		want[fmt.Sprintf("m%d", i)] = strconv.FormatFloat(float64(i)/4, 'f', -1, 64)
	}
	s.Is("ZADD 1,000", int64(1000))(zAdd(c, "z:big", members...).Result())
	found, member := map[string]string{}, ""
	scan := c.ZScan("z:big", 0, "", 50).Iterator()
	for i := 0; scan.Next(); i++ {
		if i%2 == 0 {
			member = scan.Val()
		} else {
			found[member] = scan.Val()
		}
	}
	s.Is("ZSCAN", want)(found, scan.Err())
	s.Is("ZRANGE 1,000", members)(c.ZRangeWithScores("z:big", 0, -1).Result())
	s.Is("ZREMRANGEBYRANK", int64(990))(c.ZRemRangeByRank("z:big", 10, -1).Result())
}

func pipelines(s *check.Suite, c Cmdable) {
	var sets []*StatusCmd
	var sums []*IntCmd
	_, err := c.Pipelined(func(pipe Pipeliner) error {
		for i := 0; i < 250; i++ {
			sets = append(sets, pipe.Set(fmt.Sprintf("p:%d", i), fmt.Sprintf("value %d", i), 0))
			sums = append(sums, pipe.IncrBy(fmt.Sprintf("p:n:%d", i%10), int64(i)))
		}
		return nil
	})
	s.True("pipeline of 500", err == nil)
	good, want := 0, make([]int64, 10)
	for i := range sets {
		want[i%10] += int64(i)
		if sets[i].Val() == "OK" && sums[i].Val() == want[i%10] {
			good++
		}
	}
	s.Equal("replies of the pipeline of 500", good, 250)
	var gets []*StringCmd
	_, err = c.Pipelined(func(pipe Pipeliner) error {
		for i := 0; i < 500; i++ {
			gets = append(gets, pipe.Get(fmt.Sprintf("p:%d", i)))
		}
		return nil
	})
	s.True("pipeline of 500 GET reports the missing ones", err == Nil)
	good = 0
	for i, get := range gets {
		if i < 250 && get.Val() == fmt.Sprintf("value %d", i) && get.Err() == nil || i >= 250 && get.Err() == Nil {
			good++
		}
	}
	s.Equal("GET of a pipeline of 500", good, 500)
	var push *IntCmd
	var get *StringCmd
	c.Pipelined(func(pipe Pipeliner) error {
		pipe.Set("p:e", "x", 0)
		push, get = pipe.LPush("p:e", "y"), pipe.Get("p:e")
		return nil
	})
	s.Fails("error in a pipeline", "WRONGTYPE")(push.Result())
	s.Is("pipeline goes on after an error", "x")(get.Result())
}

func errorReplies(s *check.Suite, c Cmdable) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	c.Set("e", "text", 0)
	s.Fails("LPUSH on a string", wrongType)(c.LPush("e", "x").Result())
	s.Fails("HGET on a string", wrongType)(c.HGet("e", "f").Result())
	s.Fails("INCR of text", "ERR value is not an integer or out of range")(c.Incr("e").Result())
	s.Fails("LSET of nothing", "ERR no such key")(c.LSet("e:none", 1, "x").Result())
	s.Fails("GETRANGE on a list", wrongType)(func() (any, error) {
		c.RPush("e:l", "x")
		return c.GetRange("e:l", 0, 1).Result()
	}())
	s.Is("GET after the errors", "text")(c.Get("e").Result())
}

func pool(s *check.Suite, c Cmdable, stats func() *PoolStats) {
	before := stats()
	for i := 0; i < 200; i++ {
		c.Set("pool", i, 0)
	}
	after := stats()
	s.Is("GET after 200 commands", "199")(c.Get("pool").Result())
	s.Equal("connections opened by 200 commands in a row", after.Misses-before.Misses, uint32(0))
	s.True("pool hits", after.Hits-before.Hits >= 200)
	if !s.Cluster {
		other := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS, DB: 3, PoolSize: 1})
		defer other.Close()
		first, err := clientID(other)
		s.True("CLIENT ID", err == nil && first > 0)
		s.Is("CLIENT ID of one pooled connection", first)(clientID(other))
		s.Is("SET in database 3", "OK")(other.Set("d", "x", 0).Result())
		s.Misses("GET in database 0", Nil)(c.Get("d").Result())
		s.Is("DEL in database 3", int64(1))(other.Del("d").Result())
	}
}

func concurrency(s *check.Suite, c Cmdable) {
	good := make([]int, goroutines)
	var running sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		running.Add(1)
		go func(g int) {
			defer running.Done()
			for i := 0; i < 100; i++ {
				key, value := fmt.Sprintf("c:%d:%d", g, i), fmt.Sprintf("%d/%d", g, i)
				set := c.Set(key, value, 0).Err()
				got, err := c.Get(key).Result()
				incr := c.Incr("c:total").Err()
				if set == nil && err == nil && incr == nil && got == value {
					good[g]++
				}
			}
		}(g)
	}
	running.Wait()
	for g := range good {
		s.Equal(fmt.Sprintf("replies seen by goroutine %d", g), good[g], 100)
	}
	s.Is("INCR from all goroutines", strconv.Itoa(goroutines*100))(c.Get("c:total").Result())
}

func server(s *check.Suite, c Cmdable) {
	info, err := c.Info("server").Result()
	mode := "standalone"
	if s.Cluster {
		mode = "cluster"
	}
	if s.TLS == nil { // It tells the plain port, if there is one.
		s.Is("INFO tcp_port", true)(strings.Contains(info, fmt.Sprintf("\r\ntcp_port:%d\r\n", s.Port)), err)
	}
	s.Is("INFO redis_mode", true)(strings.Contains(info, "\r\nredis_mode:"+mode+"\r\n"), err)
	s.Is("CONFIG GET", true)(configPort(c, s.PortDirective(), s.Port))
	node := NewClient(&Options{Addr: s.Addr(), TLSConfig: s.TLS, PoolSize: 1})
	defer node.Close()
	commands, err := node.Command().Result()
	s.True(fmt.Sprintf("COMMAND: %v", err), err == nil && len(commands) > 100)
	if get := commands["get"]; get != nil {
		s.Equal("COMMAND get", fmt.Sprint(get.Arity, get.FirstKeyPos, get.LastKeyPos, get.StepCount, get.ReadOnly), "2 1 1 1 true")
	} else {
		s.True("COMMAND has get", false)
	}
	name, listed, err := nameConnection(node, "halcyon-test")
	s.Is("CLIENT GETNAME", "halcyon-test")(name, err)
	s.Is("CLIENT LIST", 1)(listed, err)
	now, err := node.Time().Result()
	s.Is("TIME", true)(now.Unix() > 1_600_000_000, err)
	s.Is("SET before FLUSHDB", "OK")(c.Set("server", 1, 0).Result())
	size, err := c.DBSize().Result()
	s.Is("DBSIZE with data", true)(size > 0, err)
	s.Is("FLUSHDB", "OK")(c.FlushDB().Result())
	s.Is("DBSIZE after FLUSHDB", int64(0))(c.DBSize().Result())
}

func topology(s *check.Suite, c *ClusterClient) {
	slots, err := c.ClusterSlots().Result()
	s.Is("CLUSTER SLOTS", 1)(len(slots), err)
	if len(slots) == 1 {
		s.Equal("CLUSTER SLOTS range", fmt.Sprint(slots[0].Start, "-", slots[0].End), "0-16383")
		s.Equal("CLUSTER SLOTS nodes", len(slots[0].Nodes), 1)
		address := slots[0].Nodes[0].Addr
		s.Equal("CLUSTER SLOTS port", address[strings.LastIndex(address, ":")+1:], strconv.Itoa(s.Port))
	}
	primaries := 0
	err = eachPrimary(c, func(node *Client) error {
		primaries++
		return node.Ping().Err()
	})
	s.Is("primaries", 1)(primaries, err)
	s.Is("CLUSTER KEYSLOT", int64(3443))(c.ClusterKeySlot("{user1000}.following").Result())
	info, err := c.ClusterInfo().Result()
	s.Is("CLUSTER INFO", true)(strings.Contains(info, "cluster_state:ok\r\n"), err)
	nodes, err := c.ClusterNodes().Result()
	s.Is("CLUSTER NODES", true)(strings.Contains(nodes, "myself,master") && strings.Contains(nodes, " 0-16383\n"), err)
	s.Is("SET with a hash tag", "OK")(c.Set("{user1000}.x", 1, 0).Result())
	s.Is("CLUSTER COUNTKEYSINSLOT", int64(1))(c.ClusterCountKeysInSlot(3443).Result())
	s.Is("CLUSTER GETKEYSINSLOT", []string{"{user1000}.x"})(c.ClusterGetKeysInSlot(3443, 10).Result())
	s.Fails("MGET over slots", "CROSSSLOT Keys in request don't hash to the same slot")(c.MGet("a", "b").Result())
	s.True("reload of the topology", reload(c) == nil)
	s.Is("GET after the reload", "1")(c.Get("{user1000}.x").Result())
}

// nameConnection uses a pipeline, which keeps to one connection: the name belongs to that.
func nameConnection(node *Client, name string) (got string, listed int, err error) {
	var names, list *StringCmd
	_, err = node.Pipelined(func(pipe Pipeliner) error {
		pipe.ClientSetName(name)
		names, list = pipe.ClientGetName(), pipe.ClientList()
		return nil
	})
	return names.Val(), strings.Count(list.Val(), " name="+name+" "), err
}

func clientID(node *Client) (int64, error) { return node.ClientID().Result() }

func eachPrimary(c *ClusterClient, visit func(*Client) error) error { return c.ForEachMaster(visit) }

func reload(c *ClusterClient) error { return c.ReloadState() }

// configPort reports whether CONFIG GET of the directive answers with the port.
func configPort(c Cmdable, directive string, port int) (bool, error) {
	config, err := c.ConfigGet(directive).Result()
	return len(config) == 2 && config[0] == directive && config[1] == strconv.Itoa(port), err
}
