-- Returns the time, and the shared settings unless they have the version that the caller knows. MGET
-- rather than GET, since Redis users already have permission for it, and because it reads a value of
-- another type as nil.
local now = redis.call('TIME')
local board = redis.call('MGET', KEYS[1])[1] or ''
if string.sub(board, 1, 8) == ARGV[1] then
  return {now[1], now[2]}
end
return {now[1], now[2], board}
