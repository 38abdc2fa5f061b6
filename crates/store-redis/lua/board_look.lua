-- All of a board, unless that is the version that the caller knows; and the time. MGET and not GET,
-- since users may do that already, and because something that is not ours reads as nothing.
local now = redis.call('TIME')
local board = redis.call('MGET', KEYS[1])[1] or ''
if string.sub(board, 1, 8) == ARGV[1] then
  return {now[1], now[2]}
end
return {now[1], now[2], board}
