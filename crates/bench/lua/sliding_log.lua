-- A log in a sorted set: one decision a call.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then return { 0, count } end
redis.call('ZADD', KEYS[1], now, string.format('%.0f:%d', now, count))
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return { 1, count + 1 }
