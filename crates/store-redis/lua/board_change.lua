-- Replaces the shared settings, if they still have the version that the caller has read.
local board = redis.call('MGET', KEYS[1])[1] or ''
if string.sub(board, 1, 8) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
