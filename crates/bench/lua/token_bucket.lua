-- GCRA with GET and SET: one decision a call.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + interval
if arrival - burst > now then return { 0, arrival - burst - now } end
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000))
return { 1, math.floor((burst - (arrival - now)) / interval) }
