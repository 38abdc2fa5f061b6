-- Short names that all parts use: locals are looked up faster.
local KEYS, call, pcall, type, format = KEYS, redis.call, redis.pcall, type, string.format
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local pack, parse = struct.pack, struct.unpack
local LARGEST = 9007199254740991
-- The last argument, with which the reply ends, so that the caller knows that the reply is its own.
local mark = tonumber(ARGV[#ARGV])
