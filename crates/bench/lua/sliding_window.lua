-- A sliding-window counter with a key for each of two windows: one decision a call.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local index = math.floor(now / window)
local current_key = KEYS[1] .. ':' .. index
local previous = tonumber(redis.call('GET', KEYS[1] .. ':' .. (index - 1)) or 0)
local current = tonumber(redis.call('GET', current_key) or 0)
local share = 1 - (now - index * window) / window
if previous * share + current >= limit then return { 0, current } end
current = redis.call('INCR', current_key)
if current == 1 then redis.call('PEXPIRE', current_key, 2 * window) end
return { 1, current }
