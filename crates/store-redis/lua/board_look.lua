-- The whole board, unless it is at the version that the caller knows; and the time. MGET rather
-- than GET, since users may already run that, and because something that is not ours reads as
-- nothing.
local now = redis.call('TIME')
local board = redis.call('MGET', KEYS[1])[1] or ''
if string.sub(board, 1, 8) == ARGV[1] then
  return {now[1], now[2]}
end
return {now[1], now[2], board}
