-- A fixed window as the documents that this project came from write it: one decision a call.
local time = redis.call('TIME')
local window = tonumber(ARGV[2])
local key = KEYS[1] .. ':' .. math.floor(tonumber(time[1]) / window)
local count = redis.call('INCR', key)
if count == 1 then redis.call('EXPIRE', key, window) end
local ttl = redis.call('TTL', key)
if count > tonumber(ARGV[1]) then return { 0, count, ttl } end
return { 1, count, ttl }
