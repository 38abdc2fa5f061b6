-- The time of all that is decided here: Redis's own, read once.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Writes a state with the time for which it matters: never without one. Where none was found,
-- nothing else may be there either, such as a list: says whether that is so.
local function keep(key, was, state, micros)
  local millis = math.max(1, math.ceil(micros / 1000))
  if not was then return redis.call('SET', key, state, 'PX', millis, 'NX') end
  return redis.call('PSETEX', key, millis, state)
end
